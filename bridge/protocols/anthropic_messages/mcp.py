"""The servers of a Messages request whose tools the bridge calls, and the blocks of their calls.

The id of a block is the id of the model's call behind a prefix, so that the signature of the call is found
when the block comes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bridge.gemini.hosted_servers import (
    EVERY_TOOL,
    NO_TOOL,
    HostedRequest,
    HostedServer,
    ToolFilter,
    header_problem,
)
from bridge.gemini.hosted_tools import HostedCall, HostedResult, result_of
from bridge.gemini.types import JsonObject
from bridge.protocols.hosted_lines import result_text
from bridge.protocols.json_reading import each_object, invalid_field, optional, quoted, required

CALL, RESULT, TOOLSET = "mcp_tool_use", "mcp_tool_result", "mcp_toolset"
LOSS = "messages.mcp_servers"
TOOLSET_LOSS = f"messages.tool:{TOOLSET}"
ID_PREFIX = "mcptoolu_"


# --- the request -------------------------------------------------------------------------------------


def hosted_request(body: JsonObject) -> HostedRequest | None:
    """The servers with their toolsets; in the older form a server has its own configuration."""
    servers = list(each_object(body.get("mcp_servers") or [], "mcp_servers"))
    if not servers:
        return None
    toolsets = dict(_toolsets(body))
    listed: dict[str, list[JsonObject]] = {}
    found: dict[str, HostedServer] = {}
    for path, server in servers:
        name = required(server, "name", str, path)
        if name in found:
            raise invalid_field(f"{quoted(name)} is declared twice", f"{path}.name")
        where, toolset = toolsets.get(name, ("", None))
        found[name] = _server(server, path, toolset, where)
        if toolset is not None and (pinned := optional(toolset, "tools", list, where)):
            listed[name] = [tool for tool in pinned if isinstance(tool, dict)]
    return HostedRequest(tuple(found.values()), listed)


def server_names(body: JsonObject) -> frozenset[str]:
    servers = body.get("mcp_servers")
    return frozenset(str(each.get("name")) for each in servers or () if isinstance(each, dict))


def _toolsets(body: JsonObject) -> Iterator[tuple[str, tuple[str, JsonObject]]]:
    seen: set[str] = set()
    for path, tool in each_object(body.get("tools") or [], "tools"):
        if tool.get("type") == TOOLSET:
            name = required(tool, "mcp_server_name", str, path)
            if name in seen:
                raise invalid_field(f"{quoted(name)} has two toolsets", f"{path}.mcp_server_name")
            seen.add(name)
            yield name, (path, tool)


def _server(server: JsonObject, path: str, toolset: JsonObject | None, where: str) -> HostedServer:
    allowed, forbidden = (
        _older_form(optional(server, "tool_configuration", dict, path) or {}, f"{path}.tool_configuration")
        if toolset is None
        else _toolset(toolset, where)
    )
    token = optional(server, "authorization_token", str, path)
    problem = None if token is None else header_problem("Authorization", token)
    if problem is not None:
        raise invalid_field(problem, f"{path}.authorization_token")
    return HostedServer(
        label=required(server, "name", str, path),
        place=required(server, "url", str, path),
        losses=(LOSS,) if toolset is None else (LOSS, TOOLSET_LOSS),
        headers=() if token is None else (("Authorization", f"Bearer {token}"),),
        allowed=allowed,
        forbidden=forbidden,
    )


def _older_form(configuration: JsonObject, path: str) -> tuple[ToolFilter, ToolFilter]:
    if optional(configuration, "enabled", bool, path) is False:
        return NO_TOOL, NO_TOOL
    names = optional(configuration, "allowed_tools", list, path)
    return (EVERY_TOOL if names is None else ToolFilter(tuple(map(str, names)))), NO_TOOL


def _toolset(toolset: JsonObject, path: str) -> tuple[ToolFilter, ToolFilter]:
    """The tools that are on, and those that are off."""
    default = optional(toolset, "default_config", dict, path) or {}
    configs, where = optional(toolset, "configs", dict, path) or {}, f"{path}.configs"
    switched: Mapping[str, bool | None] = {
        name: optional(required(configs, name, dict, where), "enabled", bool, f"{where}.{name}")
        for name in configs
    }
    on, off = (tuple(name for name, each in switched.items() if each is wanted) for wanted in (True, False))
    if optional(default, "enabled", bool, f"{path}.default_config") is False:
        return ToolFilter(on), NO_TOOL
    return EVERY_TOOL, ToolFilter(off)


# --- blocks ------------------------------------------------------------------------------------------


def call_fields(call: HostedCall) -> dict[str, Any]:
    return {"id": ID_PREFIX + call.id, "name": call.name, "server_name": call.server}


def result_fields(result: HostedResult) -> dict[str, Any]:
    return {
        "call_id": ID_PREFIX + result.id,
        "is_error": result.is_error,
        "content": [{"type": "text", "text": result_text(result.response)}],
    }


def read_call(block: JsonObject, path: str) -> HostedCall:
    return HostedCall(
        required(block, "id", str, path).removeprefix(ID_PREFIX),
        optional(block, "server_name", str, path) or "",
        required(block, "name", str, path),
        optional(block, "input", dict, path) or {},
    )


def read_result(block: JsonObject, calls: Mapping[str, HostedCall], path: str) -> HostedResult | None:
    """None if the call of the result is not there."""
    call = calls.get(required(block, "tool_use_id", str, path).removeprefix(ID_PREFIX))
    if call is None:
        return None
    content = block.get("content")
    texts = content if isinstance(content, list) else [{"text": content or ""}]
    text = "\n".join(str(each.get("text", "")) for each in texts if isinstance(each, dict))
    return result_of(call, text, failed=optional(block, "is_error", bool, path) or False)
