"""Converts the tool choice of a Responses request to Gemini's configuration."""

from __future__ import annotations

from typing import Any

from bridge.gemini.losses import GOOGLES_CHOICE
from bridge.gemini.types import EMPTY, JsonObject
from bridge.protocols.json_reading import each_object, invalid_field, optional, quoted, required
from bridge.protocols.openai_responses.tools import HOSTED, LOCAL_SHELL, TOOL_SEARCH, DeclaredTools
from bridge.protocols.tool_choice import (
    CHECKED,
    MODES,
    MUST_CALL,
    NO_CALLS,
    ToolChoice,
    chosen,
    chosen_of_google,
)

PARAM = "tool_choice"
#: The types of tools that the client runs. A choice without a type names a function.
_OWN_TYPES = (None, "function", "custom", LOCAL_SHELL, TOOL_SEARCH)
_ALLOWED_MODES = {"auto": CHECKED, "required": MUST_CALL}


def chosen_tools(choice: Any, declared: DeclaredTools) -> ToolChoice:
    if choice is None:
        return ToolChoice(declared.tools())
    if isinstance(choice, str) and choice in MODES:
        if MODES[choice] == NO_CALLS:
            declared.limit_hosted(())
        return chosen(MODES[choice], [], declared.tools(), PARAM)
    if not isinstance(choice, dict):
        raise invalid_field(f"must be one of {', '.join(MODES)} or name a tool", PARAM)
    if choice.get("type") == "allowed_tools":
        return _allowed_tools(choice, declared)
    if (hosted := _hosted_kind(choice)) is None:
        return chosen(MUST_CALL, [_function_name(choice, PARAM, declared)], declared.tools(), PARAM)
    if not declared.has_hosted(hosted):
        raise invalid_field(f"{quoted(hosted)} is not among the declared tools", PARAM)
    return chosen_of_google(declared.tools())


def _allowed_tools(choice: JsonObject, declared: DeclaredTools) -> ToolChoice:
    mode = optional(choice, "mode", str, PARAM) or "auto"
    if mode not in _ALLOWED_MODES:
        raise invalid_field(f"must be auto or required, not {quoted(mode)}", f"{PARAM}.mode")
    entries = list(each_object(required(choice, "tools", list, PARAM), f"{PARAM}.tools"))
    declared.limit_hosted({_hosted_kind(tool) for _, tool in entries})
    # The types of other tools are those of dropped ones, whose declaration is counted.
    own = [(path, tool) for path, tool in entries if tool.get("type") in _OWN_TYPES]
    names = [_function_name(tool, path, declared) for path, tool in own]
    if names:
        return chosen(_ALLOWED_MODES[mode], names, declared.tools(), PARAM)
    return ToolChoice(declared.hosted_tools(), EMPTY, (GOOGLES_CHOICE,) if mode == "required" else ())


def _hosted_kind(choice: JsonObject) -> str | None:
    return next((kind for kind in HOSTED if str(choice.get("type")).startswith(kind)), None)


def _function_name(choice: JsonObject, path: str, declared: DeclaredTools) -> str:
    """The name under which Gemini can call the tool."""
    kind = choice.get("type")
    if kind not in _OWN_TYPES:
        raise invalid_field(f"the bridge does not serve tools of the type {quoted(kind)}", f"{path}.type")
    if kind in (LOCAL_SHELL, TOOL_SEARCH):
        return str(kind)
    if isinstance(choice.get("function"), dict):  # the nested form of Chat Completions
        choice, path = choice["function"], f"{path}.function"
    return declared.name_for(required(choice, "name", str, path), optional(choice, "namespace", str, path))
