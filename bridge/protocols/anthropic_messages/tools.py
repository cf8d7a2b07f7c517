"""Tools and tool choice of a Messages request to Gemini's declarations."""

from __future__ import annotations

from typing import Any

from bridge.gemini.tool_schema import object_schema
from bridge.gemini.types import EMPTY, FunctionDeclaration, JsonObject, Tool
from bridge.protocols.reading import needed, objects, optional, refuse

WEB_SEARCH = "web_search_"
_MODES = {"auto": "AUTO", "any": "ANY", "none": "NONE"}


def declared_tools(body: JsonObject) -> tuple[Tool, ...]:
    functions: dict[str, FunctionDeclaration] = {}
    searches = False
    for path, tool in objects(body.get("tools") or [], "tools"):
        kind = optional(tool, "type", str, path) or "custom"
        if kind.startswith(WEB_SEARCH):
            searches = True
            continue
        if kind != "custom":
            raise refuse(
                f"Gemini has no tool of the kind {kind!r}; declare it with an input_schema", f"{path}.type"
            )
        function = _function(tool, path)
        if function.name in functions:
            raise refuse(f"{function.name!r} is declared twice", f"{path}.name")
        functions[function.name] = function
    declared = [Tool(tuple(functions.values()))] if functions else []
    return (*declared, Tool(extra={"googleSearch": {}})) if searches else tuple(declared)


def _function(tool: JsonObject, path: str) -> FunctionDeclaration:
    schema = needed(tool, "input_schema", dict, path)
    name = needed(tool, "name", str, path)
    if not name:
        raise refuse("must not be empty", f"{path}.name")
    return FunctionDeclaration(
        name, optional(tool, "description", str, path), object_schema(schema, f"{path}.input_schema")
    )


def tool_config(choice: JsonObject | None, declared: tuple[Tool, ...]) -> JsonObject:
    if choice is None:
        return EMPTY
    kind = needed(choice, "type", str, "tool_choice")
    names = {function.name for tool in declared for function in tool.functions}
    if kind == "tool":
        return _calling("ANY", [_chosen(choice, names)])
    if kind not in _MODES:
        raise refuse(f"must be one of {', '.join((*_MODES, 'tool'))}, not {kind!r}", "tool_choice.type")
    if kind == "any" and not names:
        raise refuse("asks for a tool call, but no tools are declared", "tool_choice.type")
    return _calling(_MODES[kind], []) if names else EMPTY  # Gemini's own tools take no such wish


def _chosen(choice: JsonObject, names: set[str]) -> str:
    name = needed(choice, "name", str, "tool_choice")
    if name not in names:
        raise refuse(f"{name!r} is not among the declared tools", "tool_choice.name")
    return name


def _calling(mode: str, allowed: list[str]) -> JsonObject:
    calling: dict[str, Any] = {"mode": mode}
    if allowed:
        calling["allowedFunctionNames"] = allowed
    return {"functionCallingConfig": calling}
