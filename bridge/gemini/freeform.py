"""Freeform tools: their input is a text, which Gemini can only give as the one argument of a function."""

from __future__ import annotations

import orjson

from bridge.gemini.types import FunctionCall, FunctionDeclaration, JsonObject

_INPUT = "input"
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {_INPUT: {"type": "string", "description": "The text for the tool, as it is."}},
    "required": [_INPUT],
}


def freeform_declaration(
    name: str, description: str | None, syntax: str | None, grammar: str | None
) -> FunctionDeclaration:
    told = description or ""
    if grammar:
        told += f"\n\nThe input must follow this {syntax or 'grammar'}:\n{grammar}"
    return FunctionDeclaration(name, told.strip() or None, _SCHEMA)


def freeform_call(name: str, text: str, call_id: str) -> FunctionCall:
    return FunctionCall(name, {_INPUT: text}, call_id)


def freeform_text(call: FunctionCall) -> str:
    """What the model wrote for the tool; whatever else it sent is passed on whole, as JSON."""
    args = call.args or {}
    text = args.get(_INPUT)
    return text if isinstance(text, str) and len(args) == 1 else orjson.dumps(dict(args)).decode()
