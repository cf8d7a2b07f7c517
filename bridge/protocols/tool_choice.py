"""A client's wish about tool calls as Gemini's `toolConfig`, checked against what is declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge.gemini.types import EMPTY, JsonObject, Tool
from bridge.protocols.json_reading import invalid_field, quoted

MUST_CALL = "ANY"
CHECKED = "VALIDATED"  #: text or a call, as with AUTO; but a call keeps to its schema, and names may be given

#: OpenAI's words, in both of its protocols, and one that its clients send to Gemini.
MODES = {"auto": "AUTO", "required": MUST_CALL, "none": "NONE", "validated": CHECKED}


def tool_config(mode: str, allowed: Sequence[str], declared: Sequence[Tool], param: str) -> JsonObject:
    names = {function.name for tool in declared for function in tool.functions}
    for name in allowed:
        if name not in names:
            raise invalid_field(f"{quoted(name)} is not among the declared tools", param)
    if not names:
        if mode == MUST_CALL and not declared:
            raise invalid_field("asks for a tool call, but no tools are declared", param)
        return EMPTY  # Gemini refuses the wish without a function to call, and searches when it sees fit
    calling: dict[str, Any] = {"mode": mode}
    if allowed:
        calling["allowedFunctionNames"] = list(allowed)
    return {"functionCallingConfig": calling}
