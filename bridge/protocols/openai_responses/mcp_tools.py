"""Converts `{"type": "mcp"}` of a Responses request to a server of tools that the bridge calls."""

from __future__ import annotations

from typing import Any

from bridge.gemini.hosted_servers import EVERY_TOOL, NO_TOOL, HostedServer, ToolFilter, header_problem
from bridge.gemini.types import JsonObject
from bridge.protocols.json_reading import invalid_field, optional, required

LOSS = "responses.tool:mcp"
#: The fields that hold credentials: they are for the server alone.
SECRET_FIELDS = ("authorization", "headers")


def read_server(tool: JsonObject, path: str) -> HostedServer:
    label = required(tool, "server_label", str, path)
    always, never, default = _approval(tool.get("require_approval"), f"{path}.require_approval")
    return HostedServer(
        label=label,
        place=_place(tool, path) or label,
        losses=(LOSS,),
        headers=tuple(_headers(tool, path).items()),
        allowed=_allowed(tool.get("allowed_tools"), f"{path}.allowed_tools"),
        needs_approval=always,
        needs_none=never,
        approval_by_default=default,
    )


def _place(tool: JsonObject, path: str) -> str:
    """The address. Connectors and tunnels are OpenAI's own, so that the bridge finds no server there."""
    named = (optional(tool, name, str, path) for name in ("server_url", "connector_id", "tunnel_id"))
    return next(filter(None, named), "")


def without_secrets(tool: JsonObject) -> dict[str, Any]:
    """The tool as the response repeats it."""
    return {name: value for name, value in tool.items() if name not in SECRET_FIELDS}


def _headers(tool: JsonObject, path: str) -> dict[str, str]:
    headers, where = optional(tool, "headers", dict, path) or {}, f"{path}.headers"
    found = {name: required(headers, name, str, where) for name in headers}
    for name, value in found.items():
        _check_header(name, value, f"{where}.{name}")
    token = optional(tool, "authorization", str, path)
    if token is None:
        return found
    _check_header("Authorization", token, f"{path}.authorization")
    return {**found, "Authorization": f"Bearer {token}"}


def _check_header(name: str, value: str, path: str) -> None:
    """The message does not repeat the value, which may be a secret."""
    if (problem := header_problem(name, value)) is not None:
        raise invalid_field(problem, path)


def _allowed(wanted: Any, path: str) -> ToolFilter:
    if wanted is None:
        return EVERY_TOOL
    if isinstance(wanted, list):
        return ToolFilter(names=_names(wanted, path))
    return _filter(wanted, path)


def _filter(wanted: Any, path: str) -> ToolFilter:
    if not isinstance(wanted, dict):
        raise invalid_field("must be a list of names, or an object with tool_names or read_only", path)
    names = optional(wanted, "tool_names", list, path)
    read_only = optional(wanted, "read_only", bool, path)
    return ToolFilter(None if names is None else _names(names, f"{path}.tool_names"), read_only)


def _names(names: list[Any], path: str) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in names):
        raise invalid_field("must be a list of names", path)
    return tuple(names)


def _approval(wanted: Any, path: str) -> tuple[ToolFilter, ToolFilter, bool]:
    """The tools that always need approval, those that never need it, and the rule for the others."""
    if wanted in (None, "always"):
        return NO_TOOL, NO_TOOL, True
    if wanted == "never":
        return NO_TOOL, NO_TOOL, False
    if not isinstance(wanted, dict):
        raise invalid_field("must be always, never or an object with these names", path)
    always, never = (
        NO_TOOL if wanted.get(name) is None else _filter(wanted[name], f"{path}.{name}")
        for name in ("always", "never")
    )
    return always, never, True
