"""Converts the tools and the tool choice of a Messages request to Gemini's declarations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.types import GOOGLE_SEARCH, FunctionDeclaration, JsonObject, Tool
from bridge.protocols.anthropic_messages import mcp
from bridge.protocols.anthropic_messages.client_tools import client_tool, with_examples
from bridge.protocols.anthropic_messages.computer_toolset import TYPE as TOOLSET_TYPE
from bridge.protocols.anthropic_messages.computer_toolset import toolset_functions
from bridge.protocols.json_reading import (
    each_object,
    invalid_field,
    optional,
    quoted,
    required,
    required_name,
)
from bridge.protocols.tool_choice import MUST_CALL, NO_CALLS, ToolChoice, chosen, chosen_of_google

_MODES = {"auto": "AUTO", "any": MUST_CALL, "none": NO_CALLS}

#: Anthropic's server tools that Gemini has too, by the name of their family.
BUILT_IN_TOOLS: Mapping[str, Tool] = {
    "web_search": GOOGLE_SEARCH,
    "web_fetch": Tool(extra={"urlContext": {}}),
    "code_execution": Tool(extra={"codeExecution": {}}),
}
#: Fields of these tools that Gemini's tools do not have, with the value that asks for what happens anyway.
_BUILT_IN_FIELDS: Mapping[str, Any] = {
    "allowed_domains": [],
    "blocked_domains": [],
    "citations": {"enabled": False},
    "max_content_tokens": None,
    "max_uses": None,
    "response_inclusion": "full",
    "url_sources": None,
    "use_cache": True,
    "user_location": None,
}
#: Families of tools that only Anthropic's servers can run.
_SERVER_TOOLS = (
    "advisor",
    "browser_toolset",
    "mcp_toolset",
    "tool_search_tool_bm25",
    "tool_search_tool_regex",
)
_VERSION = re.compile(r"_\d{8}$", re.ASCII)
_DIRECT = "direct"  #: the caller of a tool that the model calls itself


class DeclaredTools:
    """The tools of a request, and what was lost of them."""

    def __init__(self, body: JsonObject, schemas: RequestSchemas) -> None:
        self.losses: list[str] = []
        self._schemas = schemas
        self._functions: dict[str, FunctionDeclaration] = {}
        self._built_in: dict[str, Tool] = {}
        self._servers = mcp.server_names(body)
        schemas.count_tools(len(body.get("tools") or ()), "tools")
        for path, tool in _in_order_of_loading(body):
            self._add(tool, path)

    @property
    def tools(self) -> tuple[Tool, ...]:
        declared = [Tool(tuple(self._functions.values()))] if self._functions else []
        return (*declared, *self._built_in.values())

    def _add(self, tool: JsonObject, path: str) -> None:
        kind = optional(tool, "type", str, path) or "custom"
        family = _VERSION.sub("", kind)
        if family in BUILT_IN_TOOLS:
            self._built_in[family] = BUILT_IN_TOOLS[family]
            self.losses += [
                f"messages.tool_field:{family}.{name}"
                for name, harmless in _BUILT_IN_FIELDS.items()
                if tool.get(name) not in (None, harmless)
            ]
        elif family == mcp.TOOLSET and tool.get("mcp_server_name") in self._servers:
            return  # its server decides what is lost
        elif family in _SERVER_TOOLS:
            self.losses.append(f"messages.tool:{family}")
        elif kind == TOOLSET_TYPE:
            for function in toolset_functions(tool, path):
                self._declare(function, path)
        else:
            function = self._function(kind, tool, path)
            self._declare(replace(function, strict=tool.get("strict") is True), path)
        self._count_options(tool)

    def _function(self, kind: str, tool: JsonObject, path: str) -> FunctionDeclaration:
        if kind == "custom":
            return _custom(tool, path, self._schemas)
        declared = client_tool(kind, tool, path)
        if declared is None:
            raise invalid_field(
                f"Gemini has no tool of the kind {quoted(kind)}; declare it with an input_schema",
                f"{path}.type",
            )
        return declared

    def _declare(self, function: FunctionDeclaration, path: str) -> None:
        if function.name in self._functions:
            raise invalid_field(f"{quoted(function.name)} is declared twice", f"{path}.name")
        self._functions[function.name] = function

    def _count_options(self, tool: JsonObject) -> None:
        callers = tool.get("allowed_callers")
        if isinstance(callers, list) and callers and _DIRECT not in callers:
            self.losses.append("messages.tool_allowed_callers")
        if tool.get("strict") and tool.get("name") not in self._functions:
            self.losses.append("messages.tool_strict")


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


def _custom(tool: JsonObject, path: str, schemas: RequestSchemas) -> FunctionDeclaration:
    schema = required(tool, "input_schema", dict, path)
    name = required_name(tool, path)
    return FunctionDeclaration(
        name,
        with_examples(optional(tool, "description", str, path), tool, path),
        schemas.tool_schema(name, schema, f"{path}.input_schema"),
    )


def chosen_tools(choice: JsonObject | None, declared: tuple[Tool, ...]) -> ToolChoice:
    if choice is None:
        return ToolChoice(declared)
    kind = required(choice, "type", str, "tool_choice")
    if kind == "tool":
        name = required(choice, "name", str, "tool_choice")
        if BUILT_IN_TOOLS.get(name) in declared:
            return chosen_of_google(declared)
        return chosen(MUST_CALL, [name], declared, "tool_choice.name")
    if kind not in _MODES:
        raise invalid_field(
            f"must be one of {', '.join((*_MODES, 'tool'))}, not {quoted(kind)}", "tool_choice.type"
        )
    return chosen(_MODES[kind], [], declared, "tool_choice.type")
