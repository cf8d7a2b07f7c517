"""Freeform tools: their input is plain text. For Gemini they are functions with a single text argument."""

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
    text = description or ""
    if grammar:
        text += f"\n\nThe input must follow this {syntax or 'grammar'}:\n{grammar}"
    return FunctionDeclaration(name, text.strip() or None, _SCHEMA)


def freeform_call(name: str, text: str, call_id: str) -> FunctionCall:
    return FunctionCall(name, {_INPUT: text}, call_id)


def freeform_text(call: FunctionCall) -> str:
    """The text that the model wrote for the tool. Arguments of another shape are returned as JSON."""
    args = call.args or {}
    text = args.get(_INPUT)
    return text if isinstance(text, str) and len(args) == 1 else orjson.dumps(dict(args)).decode()
