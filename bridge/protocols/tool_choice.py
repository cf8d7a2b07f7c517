"""Converts a client's tool choice to Gemini's `toolConfig`, and checks it against the declared tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge.gemini.strict_calls import VALIDATED
from bridge.gemini.types import EMPTY, JsonObject, Tool
from bridge.protocols.json_reading import invalid_field, quoted

MUST_CALL = "ANY"
CHECKED = VALIDATED  #: like AUTO, but calls follow their schema, and the tools can be limited by name

#: The modes of both OpenAI protocols, and `validated`, which OpenAI clients send for Gemini.
MODES = {"auto": "AUTO", "required": MUST_CALL, "none": "NONE", "validated": CHECKED}


def tool_config(mode: str, allowed: Sequence[str], declared: Sequence[Tool], param: str) -> JsonObject:
    names = {function.name for tool in declared for function in tool.functions}
    for name in allowed:
        if name not in names:
            raise invalid_field(f"{quoted(name)} is not among the declared tools", param)
    if not names:
        if mode == MUST_CALL and not declared:
            raise invalid_field("asks for a tool call, but no tools are declared", param)
        return EMPTY  # Gemini rejects the field without functions, and decides itself when to search
    config: dict[str, Any] = {"mode": mode}
    if allowed:
        config["allowedFunctionNames"] = list(allowed)
    return {"functionCallingConfig": config}
