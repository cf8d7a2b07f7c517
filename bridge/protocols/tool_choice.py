"""Converts a client's tool choice to Gemini's `toolConfig`, and checks it against the declared tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bridge.gemini.losses import GOOGLES_CHOICE
from bridge.gemini.strict_calls import VALIDATED
from bridge.gemini.types import EMPTY, JsonObject, Tool
from bridge.protocols.json_reading import invalid_field, quoted

MUST_CALL = "ANY"
NO_CALLS = "NONE"
CHECKED = VALIDATED  #: like AUTO, but calls follow their schema, and the tools can be limited by name

#: The modes of both OpenAI protocols, and `validated`, which OpenAI clients send for Gemini.
MODES = {"auto": "AUTO", "required": MUST_CALL, "none": NO_CALLS, "validated": CHECKED}


class ToolChoice(NamedTuple):
    """The tools that an answer may use, and Gemini's configuration of them."""

    tools: tuple[Tool, ...]
    config: JsonObject = EMPTY
    losses: tuple[str, ...] = ()


def chosen(mode: str, allowed: Sequence[str], declared: Sequence[Tool], param: str) -> ToolChoice:
    """The choice of a mode. Gemini's modes are for functions, so `NONE` takes away what Google runs."""
    config = tool_config(mode, allowed, declared, param)
    tools = tuple(tool for tool in declared if tool.functions or mode != NO_CALLS)
    return ToolChoice(tools, config, (GOOGLES_CHOICE,) if mode == MUST_CALL and not config else ())


def chosen_of_google(declared: Sequence[Tool]) -> ToolChoice:
    """The choice of a tool that Google runs."""
    return ToolChoice(tuple(declared), EMPTY, (GOOGLES_CHOICE,))


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
