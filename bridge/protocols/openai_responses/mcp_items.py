"""Output items of tools that the bridge runs: OpenAI's items for the tools of MCP servers.

The id of an item is the id of the model's call behind a prefix, so that the signature of the call is found
when the item comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from bridge.gemini.hosted_tools import Hosted, HostedCall, HostedKind, HostedResult, hosted_in
from bridge.gemini.types import PartData
from bridge.protocols.hosted_lines import as_json, result_text
from bridge.protocols.openai_responses.hosted import HostedItem

CALL_ID, REQUEST_ID, LIST_ID = "mcp_", "mcpr_", "mcpl_"
OWN_LABEL = "bridge"  #: the label of tools that belong to no server
CALL_EVENTS, LIST_EVENTS = "response.mcp_call", "response.mcp_list_tools"
EVENTS = (
    f"{CALL_EVENTS}.in_progress",
    f"{CALL_EVENTS}_arguments.delta",
    f"{CALL_EVENTS}_arguments.done",
    f"{CALL_EVENTS}.completed",
    f"{CALL_EVENTS}.failed",
    f"{LIST_EVENTS}.in_progress",
    f"{LIST_EVENTS}.completed",
    f"{LIST_EVENTS}.failed",
)


def mcp_item(data: PartData, approved: Collection[str]) -> HostedItem | None:
    """The item that begins with this part, if one does. `approved`: the ids of the calls that the client
    approved with this request."""
    hosted = hosted_in(data)
    if not isinstance(hosted, HostedCall):
        return None
    match hosted.kind:
        case HostedKind.CALL:
            return McpCall(hosted, REQUEST_ID + hosted.id if hosted.id in approved else None)
        case HostedKind.TOOL_LIST:
            return McpToolList(hosted)
        case HostedKind.APPROVAL:
            return McpApproval(hosted)


class _AnsweredItem:
    """An item whose result arrives as the next part."""

    takes_signature = True
    events: str

    def __init__(self, call: HostedCall) -> None:
        self._call = call
        self._result: HostedResult | None = None

    @property
    def complete(self) -> bool:
        return self._result is not None

    def add(self, data: PartData) -> bool:
        hosted: Hosted | None = hosted_in(data)
        if not isinstance(hosted, HostedResult) or hosted.id != self._call.id:
            return False
        self._result = hosted
        return True

    def closing(self) -> Iterator[str]:
        if self._result is not None:
            yield f"{self.events}.{'failed' if self._result.is_error else 'completed'}"


class McpCall(_AnsweredItem):
    events = CALL_EVENTS

    def __init__(self, call: HostedCall, approval: str | None) -> None:
        super().__init__(call)
        self._arguments = as_json(call.arguments)
        self.item = {
            **_named("mcp_call", CALL_ID, call),
            "arguments": "",
            "approval_request_id": approval,
            "output": None,
            "error": None,
            "status": "in_progress",
        }

    def opening(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield f"{CALL_EVENTS}.in_progress", {}
        yield f"{CALL_EVENTS}_arguments.delta", {"delta": self._arguments}
        yield f"{CALL_EVENTS}_arguments.done", {"arguments": self._arguments}

    def finished(self) -> dict[str, Any]:
        whole = {"arguments": self._arguments}
        if self._result is None:
            return {**whole, "status": "incomplete"}
        text = result_text(self._result.response)
        if not self._result.is_error:
            return {**whole, "status": "completed", "output": text}
        error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
        return {**whole, "status": "failed", "error": error}


class McpToolList(_AnsweredItem):
    events = LIST_EVENTS

    def __init__(self, call: HostedCall) -> None:
        super().__init__(call)
        label = {"server_label": call.server or OWN_LABEL}
        named: dict[str, Any] = {"type": "mcp_list_tools", "id": LIST_ID + call.id, **label}
        self.item = {**named, "tools": [], "error": None}

    def opening(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield f"{LIST_EVENTS}.in_progress", {}

    def finished(self) -> dict[str, Any]:
        result = self._result
        if result is None or result.is_error:
            return {"error": result_text(result.response) if result else "The server did not answer."}
        return {"tools": list(result.response.get("tools", ()))}


class McpApproval:
    """A request for approval, which has no result: the client sends its decision with the next request."""

    takes_signature = True
    complete = True

    def __init__(self, call: HostedCall) -> None:
        named = _named("mcp_approval_request", REQUEST_ID, call)
        self.item = {**named, "arguments": as_json(call.arguments)}

    def opening(self) -> Iterable[tuple[str, dict[str, Any]]]:
        return ()

    def add(self, data: PartData) -> bool:
        return False

    def closing(self) -> Iterable[str]:
        return ()

    def finished(self) -> dict[str, Any]:
        return {}


def _named(kind: str, prefix: str, call: HostedCall) -> dict[str, Any]:
    label = call.server or OWN_LABEL
    return {"type": kind, "id": prefix + call.id, "server_label": label, "name": call.name}
