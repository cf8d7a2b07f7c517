"""The rules by which Gemini refuses a request; each function returns the rules that a request breaks.

They are written from the error messages that Gemini is known to send, not from the code that avoids them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    JsonObject,
    Part,
)

LEGAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,62}", re.ASCII)
MAX_STOP_SEQUENCES = 5
NOTHING = Content(None)


def broken_rules(contents: Sequence[Content], prefill: bool) -> list[str]:
    """Errors in the order and the parts of a conversation. With `prefill`, it may end with a model turn."""
    return [*_bad_ends(contents, prefill), *_bad_turns(contents), *_bad_answers(contents)]


def _bad_ends(contents: Sequence[Content], prefill: bool) -> Iterator[str]:
    if not contents:
        yield "there is no turn"
        return
    if contents[0].role != USER:
        yield "it does not start with the user"
    if contents[-1].role != USER and not prefill:
        yield "it ends with the model"


def _bad_turns(contents: Sequence[Content]) -> Iterator[str]:
    for number, turn in enumerate(contents):
        if turn.role not in (USER, MODEL):
            yield f"turn {number}: nobody has the role {turn.role!r}"
        if not turn.parts:
            yield f"turn {number}: no parts"
        if any(is_blank(part) for part in turn.parts):
            yield f"turn {number}: a blank part"
        if turn.role != MODEL and calls(turn):
            yield f"turn {number}: a call that the model did not make"
        if turn.role == MODEL and responses(turn):
            yield f"turn {number}: a response that the model gave"
    for number, (before, turn) in enumerate(pairwise(contents), start=1):
        if before.role == turn.role:
            yield f"turn {number}: the same role twice"


def _bad_answers(contents: Sequence[Content]) -> Iterator[str]:
    """A turn with calls must be followed by a turn that starts with their responses, and no others."""
    for number, (before, turn) in enumerate(pairwise([NOTHING, *contents, NOTHING])):
        asked, given = calls(before), responses(turn)
        if len(asked) != len(given):
            yield f"turn {number}: {len(given)} responses to {len(asked)} calls"
        if [call.name for call in asked] != [response.name for response in given]:
            yield f"turn {number}: the responses are not in the order of the calls"
        if any(_differ(call.id, response.id) for call, response in zip(asked, given, strict=False)):
            yield f"turn {number}: a response under the id of another call"
        if any(not isinstance(part.data, FunctionResponse) for part in turn.parts[: len(given)]):
            yield f"turn {number}: something stands before the responses"


def _differ(one: str | None, other: str | None) -> bool:
    return bool(one and other and one != other)


def is_blank(part: Part) -> bool:
    """Whether Gemini would find no data in the part."""
    if part.signature or part.extra:
        return False
    return part.data is None or (isinstance(part.data, str) and not part.data.strip())


def calls(content: Content) -> list[FunctionCall]:
    return [part.data for part in content.parts if isinstance(part.data, FunctionCall)]


def responses(content: Content) -> list[FunctionResponse]:
    return [part.data for part in content.parts if isinstance(part.data, FunctionResponse)]


# --- the rest of a request ---------------------------------------------------------------------------


def broken_request_rules(request: GenerateRequest, prefill: bool) -> list[str]:
    """All of `broken_rules`, and errors in the instruction, the tools and the generation config."""
    return [
        *broken_rules(request.contents, prefill),
        *_bad_instruction(request.system),
        *_bad_names(request),
        *_bad_calling(request),
        *_bad_generation(request.generation),
    ]


def _bad_instruction(system: Content | None) -> Iterator[str]:
    if system is not None and (not system.parts or any(map(is_blank, system.parts))):
        yield "the system instruction is blank"


def _declared(request: GenerateRequest) -> list[FunctionDeclaration]:
    return [function for tool in request.tools for function in tool.functions]


def _bad_names(request: GenerateRequest) -> Iterator[str]:
    declared = [function.name for function in _declared(request)]
    used = [each.name for turn in request.contents for each in (*calls(turn), *responses(turn))]
    for name in (*declared, *used):
        if not LEGAL_NAME.fullmatch(name):
            yield f"{name!r} is no name for a function"
    if len(set(declared)) != len(declared):
        yield "a function is declared twice"


def _bad_calling(request: GenerateRequest) -> Iterator[str]:
    calling: dict[str, Any] | None = request.tool_config.get("functionCallingConfig")
    if calling is None:
        return
    declared = {function.name for function in _declared(request)}
    if not declared:
        yield "Function calling config is set without function_declarations."
    if not set(calling.get("allowedFunctionNames", ())) <= declared:
        yield "a function is allowed that is not declared"
    if "allowedFunctionNames" in calling and calling["mode"] not in ("ANY", "VALIDATED"):
        yield f"mode {calling['mode']} takes no list of names"


def _bad_generation(generation: JsonObject) -> Iterator[str]:
    if len(generation.get("stopSequences", ())) > MAX_STOP_SEQUENCES:
        yield "too many stop sequences"
    if not 1 <= generation.get("candidateCount", 1) <= 8:
        yield "a number of candidates that Gemini does not give"
    thinking = generation.get("thinkingConfig") or {}
    if {"thinkingBudget", "thinkingLevel"} <= set(thinking):
        yield "a thinking budget beside a thinking level"
