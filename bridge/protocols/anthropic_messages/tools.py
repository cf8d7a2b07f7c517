"""Converts the tools and the tool choice of a Messages request to Gemini's declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.types import EMPTY, GOOGLE_SEARCH, FunctionDeclaration, JsonObject, Tool
from bridge.protocols.json_reading import (
    each_object,
    invalid_field,
    optional,
    quoted,
    required,
    required_name,
)
from bridge.protocols.tool_choice import MUST_CALL, tool_config

WEB_SEARCH = "web_search"
_MODES = {"auto": "AUTO", "any": MUST_CALL, "none": "NONE"}


def declared_tools(body: JsonObject, schemas: RequestSchemas) -> tuple[Tool, ...]:
    schemas.count_tools(len(body.get("tools") or ()), "tools")
    functions: dict[str, FunctionDeclaration] = {}
    searches = False
    for path, tool in _in_order_of_loading(body):
        kind = optional(tool, "type", str, path) or "custom"
        if kind.startswith(f"{WEB_SEARCH}_"):
            searches = True
            continue
        if kind != "custom":
            raise invalid_field(
                f"Gemini has no tool of the kind {quoted(kind)}; declare it with an input_schema",
                f"{path}.type",
            )
        function = _function(tool, path, schemas)
        if function.name in functions:
            raise invalid_field(f"{quoted(function.name)} is declared twice", f"{path}.name")
        functions[function.name] = function
    declared = [Tool(tuple(functions.values()))] if functions else []
    return (*declared, GOOGLE_SEARCH) if searches else tuple(declared)


def _in_order_of_loading(body: JsonObject) -> list[tuple[str, dict[str, Any]]]:
    """The tools with their paths, deferred tools last. Claude Code declares a tool after its search found it,
    and sorts it among the others. At the end it does not invalidate Gemini's cache of the other
    declarations."""
    tools = list(each_object(body.get("tools") or [], "tools"))
    if not any(tool.get("defer_loading") for _, tool in tools):
        return tools
    found = {name: place for place, name in enumerate(dict.fromkeys(_references(body["messages"])), 2)}

    def place(named: tuple[str, dict[str, Any]]) -> int:
        tool = named[1]
        return found.get(str(tool.get("name")), 1) if tool.get("defer_loading") else 0

    return sorted(tools, key=place)


def _references(value: Any) -> Iterator[str]:
    """The tool names in all `tool_reference` blocks of the messages and their tool results, in order."""
    for block in value if isinstance(value, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_reference":
            yield str(block.get("tool_name"))
        elif isinstance(block, dict):
            yield from _references(block.get("content"))


def _function(tool: JsonObject, path: str, schemas: RequestSchemas) -> FunctionDeclaration:
    schema = required(tool, "input_schema", dict, path)
    name = required_name(tool, path)
    return FunctionDeclaration(
        name,
        optional(tool, "description", str, path),
        schemas.tool_schema(name, schema, f"{path}.input_schema"),
    )


def chosen_tools(choice: JsonObject | None, declared: tuple[Tool, ...]) -> JsonObject:
    if choice is None:
        return EMPTY
    kind = required(choice, "type", str, "tool_choice")
    if kind == "tool":
        name = required(choice, "name", str, "tool_choice")
        if name == WEB_SEARCH and GOOGLE_SEARCH in declared:  # Gemini decides by itself when to search
            return EMPTY
        return tool_config(MUST_CALL, [name], declared, "tool_choice.name")
    if kind not in _MODES:
        raise invalid_field(
            f"must be one of {', '.join((*_MODES, 'tool'))}, not {quoted(kind)}", "tool_choice.type"
        )
    return tool_config(_MODES[kind], [], declared, "tool_choice.type")
