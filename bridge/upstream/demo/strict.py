"""The rules by which Gemini refuses a conversation, with Gemini's own error texts.

Most models are less strict; a request that passes these rules passes with every model. Signatures are
required as in Gemini 3: on the first call of each step since the user's last message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bridge.gemini.types import MODEL, USER, Content, FunctionCall, FunctionResponse, GenerateRequest, Part
from bridge.upstream.demo import signatures

Places = dict[str, Any]  #: values for the message: the index of the turn, the part or the function

_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")


def violation(request: GenerateRequest) -> str | None:
    """Gemini's error text for this request; None if Gemini would accept it."""
    for rule in RULES:
        places = next(rule.breaches(request), None)
        if places is not None:
            return rule.message.format(**places)
    return None


class StrictRule(NamedTuple):
    message: str
    breaches: Callable[[GenerateRequest], Iterator[Places]]


def _no_turns(request: GenerateRequest) -> Iterator[Places]:
    if not request.contents:
        yield {}


def _empty_turns(request: GenerateRequest) -> Iterator[Places]:
    return ({"turn": turn} for turn, content in enumerate(request.contents) if not content.parts)


def _parts_without_data(request: GenerateRequest) -> Iterator[Places]:
    return ({"turn": turn, "part": place} for turn, place, part in _parts(request) if _has_no_data(part))


def _instructions_without_data(request: GenerateRequest) -> Iterator[Places]:
    parts = request.system.parts if request.system else ()
    return ({"part": place} for place, part in enumerate(parts) if _has_no_data(part))


def _has_no_data(part: Part) -> bool:
    return part.data is None or (part.data == "" and part.signature is None)


def _unknown_roles(request: GenerateRequest) -> Iterator[Places]:
    return ({} for content in request.contents if content.role not in (USER, MODEL, None))


def _bad_names(request: GenerateRequest) -> Iterator[Places]:
    declared = [function for tool in request.tools for function in tool.functions]
    return (
        {"function": place}
        for place, function in enumerate(declared)
        if not _FUNCTION_NAME.fullmatch(function.name)
    )


def _misplaced_calls(request: GenerateRequest) -> Iterator[Places]:
    return (
        {} for before, turn in _pairs(request) if _calls(turn) and (before is None or before.role == MODEL)
    )


def _misplaced_responses(request: GenerateRequest) -> Iterator[Places]:
    return ({} for before, turn in _pairs(request) if _responses(turn) and not _calls(before))


def _uneven_responses(request: GenerateRequest) -> Iterator[Places]:
    return ({} for before, turn in _pairs(request) if _calls(before) and _calls(before) != _responses(turn))


def _last_turn_of_model(request: GenerateRequest) -> Iterator[Places]:
    if request.contents[-1].role == MODEL:
        yield {}


def _undecodable_signatures(request: GenerateRequest) -> Iterator[Places]:
    for turn, place, part in _parts(request):
        if _is_checked(part) and signatures.decoded(part.signature or "") is None:
            yield {"turn": turn, "part": place, "signature": part.signature}


def _foreign_signatures(request: GenerateRequest) -> Iterator[Places]:
    return (
        {}
        for _, _, part in _parts(request)
        if _is_checked(part) and not signatures.is_ours(part.signature or "")
    )


def _is_checked(part: Part) -> bool:
    return part.signature is not None and part.signature not in signatures.DUMMIES


def _unsigned_calls(request: GenerateRequest) -> Iterator[Places]:
    for turn in range(_current_turn(request), len(request.contents)):
        name = _unsigned_call(request.contents[turn])
        if name is not None:
            yield {"name": name, "position": turn + 1}


def _current_turn(request: GenerateRequest) -> int:
    """The turn of the user's last message. Text beside a tool response belongs to the running step."""
    user_turns = (
        turn
        for turn, content in enumerate(request.contents)
        if content.role != MODEL and not _responses(content)
    )
    return max(user_turns, default=0)


def _unsigned_call(content: Content) -> str | None:
    """The name of the step's first call, unless the call or a thought before it is signed."""
    for part in content.parts:
        if part.signature and (part.thought or isinstance(part.data, FunctionCall)):
            return None
        if isinstance(part.data, FunctionCall):
            return part.data.name
    return None


def _parts(request: GenerateRequest) -> Iterator[tuple[int, int, Part]]:
    for turn, content in enumerate(request.contents):
        for place, part in enumerate(content.parts):
            yield turn, place, part


def _pairs(request: GenerateRequest) -> Iterator[tuple[Content | None, Content]]:
    return zip((None, *request.contents), request.contents, strict=False)


def _calls(content: Content | None) -> int:
    return 0 if content is None else sum(isinstance(part.data, FunctionCall) for part in content.parts)


def _responses(content: Content) -> int:
    return sum(isinstance(part.data, FunctionResponse) for part in content.parts)


_NO_DATA = "data: required oneof field 'data' must have one initialized field"
_ORDER = "Please ensure that "

#: In Gemini's order: first the form of the request, then the order of turns, then signatures.
RULES = (
    StrictRule("* GenerateContentRequest.contents: contents is not specified", _no_turns),
    StrictRule(
        "* GenerateContentRequest.contents[{turn}].parts: contents.parts must not be empty.",
        _empty_turns,
    ),
    StrictRule(
        f"* GenerateContentRequest.contents[{{turn}}].parts[{{part}}].{_NO_DATA}", _parts_without_data
    ),
    StrictRule(
        f"* GenerateContentRequest.system_instruction.parts[{{part}}].{_NO_DATA}", _instructions_without_data
    ),
    StrictRule("Please use a valid role: user, model.", _unknown_roles),
    StrictRule(
        "* GenerateContentRequest.tools[0].function_declarations[{function}].name: Invalid function "
        "name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores "
        "(_), dots (.), colons (:), or dashes (-), with a maximum length of 64.",
        _bad_names,
    ),
    StrictRule(
        _ORDER + "function call turn comes immediately after a user turn or after a function response turn.",
        _misplaced_calls,
    ),
    StrictRule(
        _ORDER + "function response turn comes immediately after a function call turn.",
        _misplaced_responses,
    ),
    StrictRule(
        _ORDER + "the number of function response parts is equal to the number of function call parts of the "
        "function call turn.",
        _uneven_responses,
    ),
    StrictRule("Requests ending with a model turn are not supported.", _last_turn_of_model),
    StrictRule(
        "Invalid value at 'contents[{turn}].parts[{part}].thought_signature' (TYPE_BYTES), "
        'Base64 decoding failed for "{signature}"',
        _undecodable_signatures,
    ),
    StrictRule("Corrupted thought signature.", _foreign_signatures),
    StrictRule(
        "Function call is missing a thought_signature in functionCall parts. This is required for tools "
        "to work correctly, and missing thought_signature may lead to degraded model performance. "
        "Additional data, function call `default_api:{name}` , position {position}. Please refer to "
        "https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
        _unsigned_calls,
    ),
)
