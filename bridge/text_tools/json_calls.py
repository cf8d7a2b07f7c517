"""Tool calls that the model writes as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

from bridge.gemini.json_text import can_be_serialised, count_brackets, parse_object
from bridge.gemini.types import FunctionCall, JsonObject
from bridge.text_tools.known_tools import KnownTool

#: The key around a call of the form {"tool_call": {"name": …, "arguments": …}}.
WRAPPER = "tool_call"
_ARGUMENTS = ("arguments", "parameters")

_OUTSIDE = re.compile(r'["{}\[\]<`]')
_INSIDE = re.compile(r'["\\]')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
_TRAILING_BACKSLASHES = re.compile(r"\\*\Z")
_CLOSER = {"{": "}", "[": "]"}


class JsonBlock:
    """One JSON value that may be a call, read in pieces."""

    def __init__(self, head: str, closer: str, *, tagged: bool) -> None:
        self.head = head
        self._tagged = tagged
        self.closer = closer  #: may follow the value
        self.broken = False  #: the value ended before its last bracket
        self._pieces: list[str] = []
        self._depth = 0
        self._in_string = self._escaped = False

    @property
    def raw(self) -> str:
        return self.head + self._body

    @property
    def _body(self) -> str:
        return "".join(self._pieces)

    def feed(self, text: str) -> str | None:
        """The text after the value, or None if the value goes on."""
        at = 0
        while at < len(text):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            mark = (_INSIDE if self._in_string else _OUTSIDE).search(text, at)
            if mark is None:
                break
            if mark[0] in "<`":  # neither is legal outside a string
                self.broken = True
                self._pieces.append(text[: mark.start()])
                return text[mark.start() :]
            at = mark.end()
            if self._ends_with(mark[0]):
                self._pieces.append(text[:at])
                return text[at:]
        self._pieces.append(text)
        return None

    def _ends_with(self, mark: str) -> bool:
        if mark == '"':
            self._in_string = not self._in_string
        elif mark == "\\":
            self._escaped = True
        else:
            self._depth += 1 if mark in "{[" else -1
            return self._depth == 0
        return False

    def calls(self, tools: Mapping[str, KnownTool]) -> list[FunctionCall]:
        """The calls in the value; empty if the value is no call of these tools."""
        return json_calls(self._body, tools, tagged=self._tagged)

    def repaired_calls(self, tools: Mapping[str, KnownTool]) -> list[FunctionCall]:
        """The calls in the value after its missing quotes and brackets are added."""
        return json_calls(_completed(self._body), tools, tagged=self._tagged)


def json_calls(text: str, tools: Mapping[str, KnownTool], *, tagged: bool) -> list[FunctionCall]:
    """The calls in a JSON text. A call without a tag must have arguments, so that other objects with a name
    are not taken for calls."""
    value = _parsed(text)
    found = [_call(each, tools, tagged) for each in (value if isinstance(value, list) else [value])]
    calls = [call for call in found if call is not None]
    return calls if len(calls) == len(found) else []


def _parsed(text: str) -> Any:
    try:
        value = orjson.loads(text)
        return value if can_be_serialised(value, count_brackets(text)) else None
    except orjson.JSONDecodeError:
        pass
    try:  # models write line breaks into strings
        value = json.loads(text, strict=False)
        return value if orjson.loads(orjson.dumps(value)) == value else None
    except (ValueError, RecursionError, TypeError):
        return None


def _call(value: Any, tools: Mapping[str, KnownTool], tagged: bool) -> FunctionCall | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get(WRAPPER), dict):
        value, tagged = value[WRAPPER], True
    name = value.get("name")
    tool = tools.get(name) if isinstance(name, str) else None
    arguments = _arguments(value, {} if tagged else None)
    if tool is None or arguments is None:
        return None
    return FunctionCall(tool.name, tool.own_arguments(arguments))


def _arguments(call: JsonObject, default: JsonObject | None) -> JsonObject | None:
    """The arguments; `default` if there are none, None if they are no object."""
    given = next((call[name] for name in _ARGUMENTS if call.get(name) is not None), default)
    if isinstance(given, str):  # small models encode the arguments twice
        return parse_object(given) if given.strip() else default
    return given if isinstance(given, dict) or given is default else None


def _completed(text: str) -> str:
    """The JSON text with the quote and the brackets that are missing at its end."""
    missing: list[str] = []
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in _CLOSER:
            missing.append(_CLOSER[mark])
        elif mark in ("}", "]"):
            if missing:
                missing.pop()
        elif mark == '"':  # a string that does not end
            text = _without_half_escape(text) + '"'
            break
    return text.rstrip() + "".join(reversed(missing))


def _without_half_escape(text: str) -> str:
    backslashes = _TRAILING_BACKSLASHES.search(text)
    assert backslashes is not None
    return text[:-1] if len(backslashes[0]) % 2 else text
