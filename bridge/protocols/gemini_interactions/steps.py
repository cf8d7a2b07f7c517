"""Converts the steps of a conversation to Gemini's contents.

An input is a list of steps, of turns (older SDKs), or of contents of one user message. Steps of Google's
built-in tools are dropped: the text after them has the results, and Gemini never produced these steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    JsonObject,
    Part,
)
from bridge.protocols.carried_signatures import read_thought
from bridge.protocols.content_parts import read_content, tool_result
from bridge.protocols.gemini_interactions import signatures
from bridge.protocols.gemini_interactions.contents import READERS
from bridge.protocols.gemini_interactions.executed_code import read_call, read_result
from bridge.protocols.json_reading import (
    arguments_object,
    each_object,
    invalid_field,
    optional,
    quoted,
    required,
)

ROLES = (USER, MODEL)
BUILTIN_TOOL_STEPS = frozenset(
    f"{tool}_{step}"
    for tool in ("google_search", "url_context", "google_maps", "file_search")
    for step in ("call", "result")
)
#: Steps of tools that only Google's servers run: dropped and counted.
SERVER_TOOL_STEPS = frozenset(
    f"{tool}_{step}" for tool in ("mcp_server_tool", "retrieval", "processing") for step in ("call", "result")
)


class Steps:
    """The conversation so far, step by step."""

    def __init__(self) -> None:
        self.contents: list[Content] = []
        self.losses: list[str] = []
        self._call_names: dict[str, str] = {}
        self._unanswered: dict[str, str] = {}  # names by call ids
        self._for_next_call: str | None = None

    def add(self, step: JsonObject, path: str, role: str = USER) -> None:
        """`role` is the role for a content outside of a step."""
        if "type" not in step and "role" in step:
            self._turn(step, path)
            return
        kind = required(step, "type", str, path)
        if kind in READERS:
            self._count_names([step])
            self._add_content(role, READERS[kind](step, path))
        elif kind in SERVER_TOOL_STEPS:
            self.losses.append(f"interactions.step:{kind}")
        elif kind not in BUILTIN_TOOL_STEPS:
            self._reader(kind, path)(self, step, path)

    def _reader(self, kind: str, path: str) -> Callable[[Steps, JsonObject, str], None]:
        if kind not in self._READERS:
            known = ", ".join((*self._READERS, *READERS))
            raise invalid_field(f"must be one of {known}, not {quoted(kind)}", f"{path}.type")
        return self._READERS[kind]

    def _add_content(self, role: str, *parts: Part) -> None:
        self._for_next_call = None  # only its call may follow such a signature
        if parts:
            self.contents.append(Content(role, parts))

    # --- messages ------------------------------------------------------------------------------------

    def _turn(self, turn: JsonObject, path: str) -> None:
        role = required(turn, "role", str, path)
        if role not in ROLES:
            raise invalid_field(f"must be user or model, not {quoted(role)}", f"{path}.role")
        content = turn.get("content")
        if isinstance(content, str):
            self._add_content(role, Part(content))
            return
        for where, step in each_object(required(turn, "content", list, path), f"{path}.content"):
            self.add(step, where, role)

    def _user_input(self, step: JsonObject, path: str) -> None:
        self._add_content(USER, *self._content(step.get("content"), f"{path}.content"))

    def _model_output(self, step: JsonObject, path: str) -> None:
        self._add_content(MODEL, *self._content(step.get("content"), f"{path}.content"))

    def _content(self, content: Any, path: str) -> list[Part]:
        self._count_names(content if isinstance(content, list) else [])
        return [] if content is None else read_content(content, path, READERS)

    def _count_names(self, contents: list[Any]) -> None:
        """Count names of media as losses: Gemini has no field for them."""
        named = [each for each in contents if isinstance(each, dict) and each.get("name")]
        self.losses += ["interactions.media_name"] * len(named)

    def _thought(self, step: JsonObject, path: str) -> None:
        where = f"{path}.summary"
        summary = self._content(optional(step, "summary", list, path), where)
        texts = [part.data for part in summary if isinstance(part.data, str)]
        self.losses += ["interactions.thought_image"] * (len(summary) - len(texts))
        signature = signatures.decode(optional(step, "signature", str, path) or "")
        if (text := signatures.text_signed(signature)) is not None:
            self._sign_text(*text)
        elif (part := signatures.part_signed(signature)) is not None:
            self._sign_part(part)
        else:
            parts, after = read_thought("".join(texts), signature)
            self._add_content(MODEL, *parts)
            self._for_next_call = after

    def _sign_text(self, length: int, signature: str) -> None:
        if length == 0:
            self._add_content(MODEL, Part("", signature=signature))
            return
        last_part = self._last_model_part()
        if last_part is None or not isinstance(last_part.data, str) or length > len(last_part.data):
            self.losses.append("interactions.signature_of_another_text")
            return
        before, end = last_part.data[:-length], last_part.data[-length:]
        self._replace_last(*([Part(before)] if before else []), Part(end, signature=signature))

    def _sign_part(self, signature: str) -> None:
        last_part = self._last_model_part()
        if last_part is None or isinstance(last_part.data, str):
            self.losses.append("interactions.signature_of_another_part")
            return
        self._replace_last(replace(last_part, signature=signature))

    def _last_model_part(self) -> Part | None:
        """The last part, if the model said it and it is neither a thought nor signed."""
        last = self.contents[-1] if self.contents else None
        last_part = last.parts[-1] if last is not None and last.role == MODEL else None
        return None if last_part is None or last_part.thought or last_part.signature else last_part

    def _replace_last(self, *parts: Part) -> None:
        last = self.contents.pop()
        self.contents.append(replace(last, parts=(*last.parts[:-1], *parts)))

    # --- calls and their results ---------------------------------------------------------------------

    def _function_call(self, step: JsonObject, path: str) -> None:
        call_id, name = required(step, "id", str, path), required(step, "name", str, path)
        signature = self._for_next_call or self._own_signature(step, path)
        if self._unanswered.get(call_id) == name:
            self._for_next_call = None
            return  # a duplicate: some clients repeat the stored call together with its result
        given = step.get("arguments")
        arguments = (
            arguments_object(given) if isinstance(given, str) else optional(step, "arguments", dict, path)
        )
        self._call_names[call_id] = self._unanswered[call_id] = name
        self._add_content(MODEL, Part(FunctionCall(name, arguments or {}, call_id), signature=signature))

    def _own_signature(self, step: JsonObject, path: str) -> str | None:
        given = optional(step, "signature", str, path)
        return signatures.decode(given) if given else None

    def _function_result(self, step: JsonObject, path: str) -> None:
        call_id = required(step, "call_id", str, path)
        name = self._call_names.get(call_id) or optional(step, "name", str, path) or ""
        failed = optional(step, "is_error", bool, path)
        self._unanswered.pop(call_id, None)
        result = step.get("result")
        if isinstance(result, str | list):
            self._add_content(
                USER, tool_result(self._content(result, f"{path}.result"), name, call_id, failed)
            )
            return
        if "result" not in step:
            raise invalid_field("is required", f"{path}.result")
        response = (
            result if isinstance(result, dict) and not failed else {"error" if failed else "result": result}
        )
        self._add_content(USER, Part(FunctionResponse(name, response, call_id)))

    # --- code that Gemini runs -----------------------------------------------------------------------

    def _code_call(self, step: JsonObject, path: str) -> None:
        self._add_content(MODEL, Part(read_call(step, path), signature=self._own_signature(step, path)))

    def _code_result(self, step: JsonObject, path: str) -> None:
        self._add_content(MODEL, Part(read_result(step, path), signature=self._own_signature(step, path)))

    #: A class attribute: in each object it would be a reference cycle.
    _READERS: ClassVar[Mapping[str, Callable[[Steps, JsonObject, str], None]]] = {
        "user_input": _user_input,
        "model_output": _model_output,
        "thought": _thought,
        "function_call": _function_call,
        "function_result": _function_result,
        "code_execution_call": _code_call,
        "code_execution_result": _code_result,
    }
