"""Normalises the spelling of native requests.

Google accepts both `systemInstruction` and `system_instruction`, one object in place of an array, and null
for a missing field. The fields that the bridge reads are converted to the first form; all others stay
unchanged. Names change only by their position in the request, never inside a client's own data: arguments,
results, schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge.gemini.types import JsonObject
from bridge.protocols.json_reading import each_object, invalid_field, optional

_HUMP = re.compile(r"_([a-z0-9])")


@dataclass(frozen=True, slots=True)
class Message:
    """A message type of Google's API: the fields that the bridge reads."""

    values: Mapping[str, type] = field(default_factory=dict)
    one: Mapping[str, Message] = field(default_factory=dict)
    many: Mapping[str, Message] = field(default_factory=dict)


_BLOB = Message({"mimeType": str, "data": str})
_FILE = Message({"mimeType": str, "fileUri": str})
_MEDIA = Message(one={"inlineData": _BLOB, "fileData": _FILE})
_CALL = Message({"id": str, "name": str, "args": dict})
_RESPONSE = Message({"id": str, "name": str, "response": dict}, many={"parts": _MEDIA})
_PART = Message(
    {"text": str, "thought": bool, "thoughtSignature": str},
    one={"functionCall": _CALL, "functionResponse": _RESPONSE, "inlineData": _BLOB, "fileData": _FILE},
)
CONTENT = Message({"role": str}, many={"parts": _PART})
_FUNCTION = Message({"name": str, "description": str, "parametersJsonSchema": dict})
_TOOL = Message(many={"functionDeclarations": _FUNCTION})
_TOOL_CONFIG = Message(one={"functionCallingConfig": Message({"allowedFunctionNames": list})})
_GENERATION = Message(
    {"maxOutputTokens": int, "candidateCount": int, "stopSequences": list},
    one={"thinkingConfig": Message()},
)
REQUEST = Message(
    one={"systemInstruction": CONTENT, "toolConfig": _TOOL_CONFIG, "generationConfig": _GENERATION},
    many={"contents": CONTENT, "tools": _TOOL},
)


def normalise_names(source: JsonObject, path: str = "") -> dict[str, Any]:
    """The fields of the message with names in camel case and without nulls."""
    spelled = {_camel(name): value for name, value in source.items() if value is not None}
    if len(spelled) < sum(value is not None for value in source.values()):
        raise invalid_field("has a field twice, in two spellings", path or "request")
    return spelled


def read(message: Message, source: JsonObject, path: str = "") -> dict[str, Any]:
    """The normalised message, including nested messages."""
    fields = normalise_names(source, path)
    for name, kind in message.values.items():
        optional(fields, name, kind, path)
    for name in fields.keys() & message.one.keys():
        below = _below(path, name)
        fields[name] = read(message.one[name], optional(fields, name, dict, path) or {}, below)
    for name in fields.keys() & message.many.keys():
        fields[name] = _each(message.many[name], fields[name], _below(path, name))
    return fields


def _each(message: Message, value: Any, path: str) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [read(message, value, path)]
    if not isinstance(value, list):
        raise invalid_field("must be an array", path)
    return [read(message, item, where) for where, item in each_object(value, path)]


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _camel(name: str) -> str:
    return _HUMP.sub(lambda found: found[1].upper(), name) if "_" in name else name
