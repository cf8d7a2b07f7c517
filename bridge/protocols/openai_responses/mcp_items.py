"""Output items of tools that the bridge runs, and the same items in the history.

The id of an item is the id of the model's call behind a prefix, so that the signature of the call is found
when the item comes back.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson

from bridge.gemini.hosted_tools import Hosted, HostedCall, HostedKind, HostedResult
from bridge.gemini.types import JsonObject
from bridge.protocols.hosted_text import result_object, result_text
from bridge.protocols.json_reading import arguments_object, invalid_field, optional, required
from bridge.protocols.openai_responses.item_events import ItemEvents

CALL_ID, REQUEST_ID, LIST_ID = "mcp_", "mcpr_", "mcpl_"
REFUSED = "The user refused this call{}"
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


def item_events(hosted: Hosted, approved: Collection[str]) -> ItemEvents:
    """`approved`: the ids of the calls that the client approved with this request."""
    if isinstance(hosted, HostedResult):
        return _result(hosted) if hosted.kind is HostedKind.CALL else _listed(hosted)
    match hosted.kind:
        case HostedKind.CALL:
            return _call(hosted, approved)
        case HostedKind.APPROVAL:
            item = {**_named("mcp_approval_request", REQUEST_ID, hosted), "arguments": _arguments(hosted)}
            return ItemEvents(item, finished={})
        case HostedKind.TOOL_LIST:
            item = {"type": "mcp_list_tools", "id": LIST_ID + hosted.id, "server_label": hosted.server}
            return ItemEvents({**item, "tools": [], "error": None}, ((f"{LIST_EVENTS}.in_progress", {}),))


def _named(kind: str, prefix: str, call: HostedCall) -> dict[str, Any]:
    return {"type": kind, "id": prefix + call.id, "server_label": call.server, "name": call.name}


def _arguments(call: HostedCall) -> str:
    return orjson.dumps(dict(call.arguments)).decode()


def _call(call: HostedCall, approved: Collection[str]) -> ItemEvents:
    arguments = _arguments(call)
    item = {
        **_named("mcp_call", CALL_ID, call),
        "arguments": "",
        "output": None,
        "error": None,
        "approval_request_id": REQUEST_ID + call.id if call.id in approved else None,
        "status": "in_progress",
    }
    events: tuple[tuple[str, dict[str, Any]], ...] = (
        (f"{CALL_EVENTS}.in_progress", {}),
        (f"{CALL_EVENTS}_arguments.delta", {"delta": arguments}),
        (f"{CALL_EVENTS}_arguments.done", {"arguments": arguments}),
    )
    return ItemEvents(item, events, {"arguments": arguments})


def _result(result: HostedResult) -> ItemEvents:
    text = result_text(result)
    if not result.is_error:
        done = {"output": text, "status": "completed"}
        return ItemEvents(events=((f"{CALL_EVENTS}.completed", {}),), finished=done)
    error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
    failed = {"error": error, "status": "failed"}
    return ItemEvents(events=((f"{CALL_EVENTS}.failed", {}),), finished=failed)


def _listed(result: HostedResult) -> ItemEvents:
    if result.is_error:
        failed = {"error": result_text(result)}
        return ItemEvents(events=((f"{LIST_EVENTS}.failed", {}),), finished=failed)
    listed = {"tools": list(result.response.get("tools", ()))}
    return ItemEvents(events=((f"{LIST_EVENTS}.completed", {}),), finished=listed)


# --- the history -------------------------------------------------------------------------------------


class McpHistory:
    """What the items of a request say about earlier calls, lists and approvals."""

    def __init__(self) -> None:
        self.listed: dict[str, list[JsonObject]] = {}
        self._requested: dict[str, HostedCall] = {}
        self._decided: dict[str, tuple[bool, str]] = {}
        self._called: set[str] = set()

    def call(self, item: JsonObject, path: str) -> tuple[HostedCall, HostedResult | None]:
        """A call and its result; no result if the answer ended before it."""
        call = _read_call(item, CALL_ID, path)
        self._called.add(call.id)
        error = item.get("error")
        output = _error_text(error) if error else optional(item, "output", str, path)
        if output is None:
            return call, None
        response = result_object(output, bool(error))
        return call, HostedResult(call.id, call.server, call.name, response, bool(error))

    def list_tools(self, item: JsonObject, path: str) -> None:
        label, tools = required(item, "server_label", str, path), optional(item, "tools", list, path)
        if not item.get("error"):
            self.listed[label] = [tool for tool in tools or () if isinstance(tool, dict)]

    def request(self, item: JsonObject, path: str) -> None:
        call = _read_call(item, REQUEST_ID, path)
        self._requested[REQUEST_ID + call.id] = call

    def decide(self, item: JsonObject, path: str) -> tuple[HostedCall, HostedResult] | None:
        """The call with its refusal, if the client refuses it."""
        named = required(item, "approval_request_id", str, path)
        call = self._requested.get(named)
        if call is None:
            raise invalid_field("there is no such request for approval", f"{path}.approval_request_id")
        approve, reason = required(item, "approve", bool, path), optional(item, "reason", str, path)
        if named in self._decided:
            raise invalid_field("this request was decided before", f"{path}.approval_request_id")
        self._decided[named] = approve, reason or ""
        if approve:
            return None
        refusal = {"error": REFUSED.format(f": {reason}" if reason else ".")}
        return call, HostedResult(call.id, call.server, call.name, refusal, True)

    def approved(self) -> tuple[HostedCall, ...]:
        """The calls that the client approved and that have not been made."""
        approved = (self._requested[named] for named, (approve, _) in self._decided.items() if approve)
        return tuple(call for call in approved if call.id not in self._called)


def _read_call(item: JsonObject, prefix: str, path: str) -> HostedCall:
    return HostedCall(
        required(item, "id", str, path).removeprefix(prefix),
        required(item, "server_label", str, path),
        required(item, "name", str, path),
        arguments_object(optional(item, "arguments", str, path) or ""),
    )


def _error_text(error: Any) -> str:
    if isinstance(error, dict) and isinstance(error.get("content"), list):
        return "\n".join(str(each.get("text", "")) for each in error["content"] if isinstance(each, dict))
    return str(error.get("message", "")) if isinstance(error, dict) else str(error)
