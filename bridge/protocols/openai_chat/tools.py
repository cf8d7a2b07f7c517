"""Converts the tools and the tool choice of a chat request to Gemini's declarations."""

from __future__ import annotations

from typing import Any

from bridge.gemini.freeform import freeform_declaration
from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.types import GOOGLE_SEARCH, FunctionDeclaration, JsonObject, Tool
from bridge.protocols.json_reading import (
    each_object,
    invalid_field,
    optional,
    quoted,
    required,
    required_name,
)
from bridge.protocols.tool_choice import CHECKED, MODES, MUST_CALL, ToolChoice, chosen


def declared_tools(body: JsonObject, schemas: RequestSchemas) -> tuple[Tool, ...]:
    tools, legacy = body.get("tools") or [], body.get("functions") or []
    schemas.count_tools(len(tools) + len(legacy), "tools")
    functions = [_tool(tool, path, schemas) for path, tool in each_object(tools, "tools")]
    functions += [_function(each, path, schemas) for path, each in each_object(legacy, "functions")]
    _reject_duplicates(functions)
    declared = [Tool(tuple(functions))] if functions else []
    if body.get("web_search_options") is not None:
        declared.append(GOOGLE_SEARCH)
    return tuple(declared)


def custom_tools(body: JsonObject) -> frozenset[str]:
    return frozenset(
        tool["custom"]["name"] for tool in body.get("tools") or [] if tool.get("type") == "custom"
    )


def _reject_duplicates(functions: list[FunctionDeclaration]) -> None:
    seen: set[str] = set()
    for function in functions:
        if function.name in seen:
            raise invalid_field(f"{quoted(function.name)} is declared twice", "tools")
        seen.add(function.name)


def _tool(tool: JsonObject, path: str, schemas: RequestSchemas) -> FunctionDeclaration:
    kind = optional(tool, "type", str, path) or "function"
    if kind == "custom":
        return _custom(required(tool, "custom", dict, path), f"{path}.custom")
    if kind != "function":
        raise invalid_field(f"must be function or custom, not {quoted(kind)}", f"{path}.type")
    if "function" in tool:
        return _function(required(tool, "function", dict, path), f"{path}.function", schemas)
    return _function(tool, path, schemas)  # the flat form of the Responses API


def _function(function: JsonObject, path: str, schemas: RequestSchemas) -> FunctionDeclaration:
    parameters = optional(function, "parameters", dict, path)
    name = required_name(function, path)
    return FunctionDeclaration(
        name,
        optional(function, "description", str, path),
        schemas.tool_schema(name, parameters, f"{path}.parameters") if parameters else None,
        strict=function.get("strict") is True,
    )


def _custom(custom: JsonObject, path: str) -> FunctionDeclaration:
    grammar = optional(optional(custom, "format", dict, path) or {}, "grammar", dict, f"{path}.format") or {}
    where = f"{path}.format.grammar"
    return freeform_declaration(
        required_name(custom, path),
        optional(custom, "description", str, path),
        optional(grammar, "syntax", str, where),
        optional(grammar, "definition", str, where),
    )


def chosen_tools(body: JsonObject, declared: tuple[Tool, ...]) -> ToolChoice:
    choice, path = body.get("tool_choice"), "tool_choice"
    if choice is None:
        choice, path = body.get("function_call"), "function_call"
    if choice is None:
        return ToolChoice(declared)
    mode, allowed = _choice(choice, path)
    return chosen(mode, allowed, declared, path)


def _choice(choice: Any, path: str) -> tuple[str, list[str]]:
    if isinstance(choice, str) and choice in MODES:
        return MODES[choice], []
    if isinstance(choice, dict):
        if choice.get("type") == "allowed_tools":
            return _allowed(choice, path)
        return MUST_CALL, [_chosen_name(choice, path)]
    raise invalid_field(f"must be one of {', '.join(MODES)} or name a tool", path)


def _allowed(choice: JsonObject, path: str) -> tuple[str, list[str]]:
    allowed = required(choice, "allowed_tools", dict, path)
    tools = required(allowed, "tools", list, f"{path}.allowed_tools")
    names = [_chosen_name(tool, where) for where, tool in each_object(tools, f"{path}.allowed_tools.tools")]
    return MUST_CALL if allowed.get("mode") == "required" else CHECKED, names


def _chosen_name(choice: JsonObject, path: str) -> str:
    kind = choice.get("type")
    holder = choice.get(kind) if isinstance(kind, str) else None
    return (
        required(holder, "name", str, f"{path}.{kind}")
        if isinstance(holder, dict)
        else required(choice, "name", str, path)
    )
