"""Converts the tools of a Responses request to Gemini's declarations, and records the kind of each tool.

The output item of a call must have the kind of its tool: Codex aborts a turn if a freeform tool is called as
a function, and finds a namespaced tool only by namespace and name.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import sha256
from typing import Any, ClassVar

from bridge.gemini.freeform import freeform_declaration
from bridge.gemini.hosted_servers import HostedServer
from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.types import CODE_EXECUTION, GOOGLE_SEARCH, FunctionDeclaration, JsonObject, Tool
from bridge.protocols.json_reading import (
    each_object,
    invalid_field,
    optional,
    quoted,
    required,
    required_name,
)
from bridge.protocols.openai_responses.losses import tool_losses
from bridge.protocols.openai_responses.mcp_tools import read_server

LOCAL_SHELL = "local_shell"
TOOL_SEARCH = "tool_search"
#: The hosted tools that Gemini has. `web_search` is also the beginning of the names of its versions.
WEB_SEARCH, CODE, IMAGES, MCP = HOSTED = ("web_search", "code_interpreter", "image_generation", "mcp")

_LOCAL_SHELL_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "command": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The program and its arguments.",
        },
        "working_directory": {"type": "string"},
        "timeout_ms": {"type": "integer"},
    },
    "required": ["command"],
}


_SEARCH_SETTINGS = (
    "filters",
    "user_location",
    "search_context_size",
    "search_content_types",
    "external_web_access",
)
_CONTAINER_SETTINGS = ("file_ids", "memory_limit", "network_policy")
_IMAGE_SETTINGS = (
    "action",
    "background",
    "input_fidelity",
    "input_image_mask",
    "model",
    "moderation",
    "output_compression",
    "output_format",
    "partial_images",
    "quality",
    "size",
)


class ToolKind(Enum):
    FUNCTION = auto()
    CUSTOM = auto()
    LOCAL_SHELL = auto()
    TOOL_SEARCH = auto()


@dataclass(frozen=True, slots=True)
class CalledTool:
    """The client's tool behind a declared function."""

    kind: ToolKind
    name: str
    namespace: str | None = None


class DeclaredTools:
    """All tools of a request, declared in `tools` or in input items."""

    def __init__(self) -> None:
        self.calls: dict[str, CalledTool] = {}  #: by the name that Gemini gets
        self.losses: list[str] = []
        self.schemas = RequestSchemas()
        self._functions: dict[str, FunctionDeclaration] = {}
        self._hosted: dict[str, Tool | None] = {}  # by kind; images and servers need no tool of Google's
        self._servers: dict[str, HostedServer] = {}

    def add(self, tools: list[Any], path: str, namespace: str | None = None) -> list[str]:
        """Declare the tools, and return the names under which Gemini can call them."""
        names: list[str] = []
        for where, tool in each_object(tools, path):
            kind = required(tool, "type", str, where)
            self.losses += tool_losses(kind, tool)
            if kind.startswith(WEB_SEARCH):
                self._search()
            elif kind in self._READERS:
                names += self._READERS[kind](self, tool, where, namespace)
            else:
                self.losses.append(f"responses.tool:{kind[:32]}")
        return names

    def tools(self) -> tuple[Tool, ...]:
        functions = (Tool(tuple(self._functions.values())),) if self._functions else ()
        return (*functions, *self.hosted_tools())

    def hosted_tools(self) -> tuple[Tool, ...]:
        return tuple(tool for tool in self._hosted.values() if tool is not None)

    @property
    def draws(self) -> bool:
        """Whether the client allows the model to draw images."""
        return IMAGES in self._hosted

    @property
    def servers(self) -> tuple[HostedServer, ...]:
        """Those whose tools the bridge calls."""
        return tuple(self._servers.values()) if MCP in self._hosted else ()

    def has_hosted(self, kind: str) -> bool:
        return kind in self._hosted

    def limit_hosted(self, kinds: Container[str | None]) -> None:
        """Leave out the hosted tools of other kinds."""
        self._hosted = {kind: tool for kind, tool in self._hosted.items() if kind in kinds}

    def name_for(self, name: str, namespace: str | None) -> str:
        """The name of a tool for Gemini. A hash separates two tools whose joined names are equal."""
        place = _namespace_prefix(namespace)
        joined = f"{place}__{name}" if place else name
        known = self.calls.get(joined)
        if known is None or (known.name, _namespace_prefix(known.namespace)) == (name, place):
            return joined
        return f"{joined}_{sha256(f'{place}/{name}'.encode()).hexdigest()[:8]}"

    def _declare(self, function: FunctionDeclaration, called: CalledTool, path: str) -> list[str]:
        known = self.calls.get(function.name)
        if known is not None and known.kind is not called.kind:
            raise invalid_field(f"{quoted(function.name)} is declared twice, as different tools", path)
        if known is None:
            self.schemas.count_tools(1, path)
        # A tool search may declare a tool again: the latest declaration counts.
        self.calls[function.name] = called
        self._functions[function.name] = function
        return [function.name]

    def _function(self, tool: JsonObject, path: str, namespace: str | None) -> list[str]:
        if isinstance(tool.get("function"), dict):  # the nested form of Chat Completions
            tool, path = tool["function"], f"{path}.function"
        name = required_name(tool, path)
        schema = optional(tool, "parameters", dict, path)
        joined = self.name_for(name, namespace)
        function = FunctionDeclaration(
            joined,
            optional(tool, "description", str, path),
            self.schemas.tool_schema(joined, schema, f"{path}.parameters") if schema else None,
            strict=tool.get("strict") is True,
        )
        return self._declare(function, CalledTool(ToolKind.FUNCTION, name, namespace), path)

    def _custom(self, tool: JsonObject, path: str, namespace: str | None) -> list[str]:
        name = required_name(tool, path)
        form, where = optional(tool, "format", dict, path) or {}, f"{path}.format"
        function = freeform_declaration(
            self.name_for(name, namespace),
            optional(tool, "description", str, path),
            optional(form, "syntax", str, where),
            optional(form, "definition", str, where),
        )
        return self._declare(function, CalledTool(ToolKind.CUSTOM, name, namespace), path)

    def _namespace(self, tool: JsonObject, path: str, namespace: str | None) -> list[str]:
        if namespace is not None:
            raise invalid_field("a namespace cannot contain another namespace", path)
        return self.add(required(tool, "tools", list, path), f"{path}.tools", required_name(tool, path))

    def _local_shell(self, _tool: JsonObject, path: str, _namespace: str | None) -> list[str]:
        function = FunctionDeclaration(
            LOCAL_SHELL, "Runs a program on the user's machine.", _LOCAL_SHELL_SCHEMA
        )
        return self._declare(function, CalledTool(ToolKind.LOCAL_SHELL, LOCAL_SHELL), path)

    def _tool_search(self, tool: JsonObject, path: str, _namespace: str | None) -> list[str]:
        schema = optional(tool, "parameters", dict, path)
        description = optional(tool, "description", str, path) or "Finds tools that are not declared yet."
        prepared = self.schemas.tool_schema(TOOL_SEARCH, schema, f"{path}.parameters") if schema else None
        called = CalledTool(ToolKind.TOOL_SEARCH, TOOL_SEARCH)
        return self._declare(FunctionDeclaration(TOOL_SEARCH, description, prepared), called, path)

    def _search(self) -> None:
        """Google's search takes no settings of OpenAI's."""
        self._hosted[WEB_SEARCH] = GOOGLE_SEARCH

    def _code_interpreter(self, tool: JsonObject, path: str, _namespace: str | None) -> list[str]:
        """Gemini executes Python without files, in a container of its own."""
        self._hosted[CODE] = CODE_EXECUTION
        container = tool.get("container")
        if isinstance(container, str):
            self.losses.append("responses.code_interpreter:container")
        settings = optional(tool, "container", dict, path) if isinstance(container, dict) else None
        lost = [name for name in _CONTAINER_SETTINGS if (settings or {}).get(name)]
        self.losses += [f"responses.code_interpreter:container.{name}" for name in lost]
        return []

    def _mcp(self, tool: JsonObject, path: str, _namespace: str | None) -> list[str]:
        server = read_server(tool, path)
        if server.label in self._servers:
            raise invalid_field(f"{quoted(server.label)} is declared twice", f"{path}.server_label")
        self._servers[server.label] = server
        self._hosted[MCP] = None
        return []

    def _image_generation(self, tool: JsonObject, _path: str, _namespace: str | None) -> list[str]:
        """The model itself draws, in its own size and format."""
        self._hosted[IMAGES] = None
        lost = [name for name in _IMAGE_SETTINGS if tool.get(name) not in (None, "auto")]
        self.losses += [f"responses.image_generation:{name}" for name in lost]
        return []

    #: A class attribute: in each object it would be a reference cycle.
    _READERS: ClassVar[Mapping[str, Callable[[DeclaredTools, JsonObject, str, str | None], list[str]]]] = {
        "function": _function,
        "custom": _custom,
        "namespace": _namespace,
        "local_shell": _local_shell,
        "tool_search": _tool_search,
        CODE: _code_interpreter,
        IMAGES: _image_generation,
        MCP: _mcp,
    }


def _namespace_prefix(namespace: str | None) -> str:
    """The namespace as a prefix. Clients use both None and `functions` for tools without a namespace."""
    return "" if namespace in (None, "functions") else namespace
