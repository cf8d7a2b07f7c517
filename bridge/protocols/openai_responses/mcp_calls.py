"""Items of tools that the bridge runs: OpenAI's items for the tools of MCP servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bridge.gemini.hosted_tools import HostedCall, HostedKind, HostedResult, hosted_in, hosted_part
from bridge.gemini.types import EMPTY, JsonObject, Part, PartData
from bridge.protocols.hosted_lines import as_json, result_text
from bridge.protocols.json_reading import arguments_object, optional, required

MCP_EVENTS = "response.mcp_call"
ID_PREFIX = "mcp_"
OWN_LABEL = "bridge"  #: the label of tools that belong to no server


class McpCall:
    """A call and its result, which arrives as the next part."""

    takes_signature = True

    def __init__(self, call: HostedCall) -> None:
        self._call = call
        self._arguments = as_json(call.arguments)
        self._result: HostedResult | None = None
        self.item = {
            "type": "mcp_call",
            "id": ID_PREFIX + call.id,
            "server_label": call.server or OWN_LABEL,
            "name": call.name,
            "arguments": "",
            "approval_request_id": None,
            "output": None,
            "error": None,
        }

    @property
    def complete(self) -> bool:
        return self._result is not None

    def opening(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield f"{MCP_EVENTS}.in_progress", {}
        yield f"{MCP_EVENTS}_arguments.delta", {"delta": self._arguments}
        yield f"{MCP_EVENTS}_arguments.done", {"arguments": self._arguments}

    def add(self, data: PartData) -> bool:
        hosted = hosted_in(data)
        if not isinstance(hosted, HostedResult) or hosted.id != self._call.id:
            return False
        self._result = hosted
        return True

    def closing(self) -> Iterator[str]:
        if self._result is not None:
            yield f"{MCP_EVENTS}.{'failed' if self._result.is_error else 'completed'}"

    def finished(self) -> dict[str, Any]:
        whole = {"arguments": self._arguments}
        if self._result is None:
            return {**whole, "status": "incomplete"}
        text = result_text(self._result.response)
        failed = self._result.is_error
        return {**whole, "status": "failed" if failed else "completed", "error" if failed else "output": text}


def mcp_call(data: PartData) -> McpCall | None:
    hosted = hosted_in(data)
    is_call = isinstance(hosted, HostedCall) and hosted.kind is HostedKind.CALL
    return McpCall(hosted) if is_call and isinstance(hosted, HostedCall) else None


def mcp_parts(item: JsonObject, path: str, signature: str | None) -> list[Part]:
    """The parts of a call in the history."""
    label = required(item, "server_label", str, path)
    server = "" if label == OWN_LABEL else label
    name = required(item, "name", str, path)
    own_id = required(item, "id", str, path).removeprefix(ID_PREFIX)
    arguments = arguments_object(optional(item, "arguments", str, path) or "")
    output, error = optional(item, "output", str, path), item.get("error")
    response = {"output": output or ""} if error is None else {"error": error}
    result = HostedResult(own_id, server, name, response, is_error=error is not None)
    call = HostedCall(own_id, server, name, arguments or EMPTY)
    return [hosted_part(call, signature), hosted_part(result)]
