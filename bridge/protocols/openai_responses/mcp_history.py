"""What the items of a request say about earlier calls of the bridge's tools, lists and approvals."""

from __future__ import annotations

from typing import Any

from bridge.gemini.hosted_tools import HostedCall, HostedResult, result_of
from bridge.gemini.types import EMPTY, JsonObject
from bridge.protocols.json_reading import arguments_object, invalid_field, optional, required
from bridge.protocols.openai_responses.mcp_items import CALL_ID, OWN_LABEL, REQUEST_ID

REFUSED = "The user refused this call"


class McpHistory:
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
        return call, result_of(call, output, failed=bool(error))

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
        return call, result_of(call, f"{REFUSED}: {reason}" if reason else f"{REFUSED}.", failed=True)

    def approved(self) -> tuple[HostedCall, ...]:
        """The calls that the client approved and that have not been made."""
        approved = (self._requested[named] for named, (approve, _) in self._decided.items() if approve)
        return tuple(call for call in approved if call.id not in self._called)


def _read_call(item: JsonObject, prefix: str, path: str) -> HostedCall:
    label = required(item, "server_label", str, path)
    return HostedCall(
        required(item, "id", str, path).removeprefix(prefix),
        "" if label == OWN_LABEL else label,
        required(item, "name", str, path),
        arguments_object(optional(item, "arguments", str, path) or "") or EMPTY,
    )


def _error_text(error: Any) -> str:
    """The text of an error; some clients send the text alone."""
    if not isinstance(error, dict):
        return str(error)
    content = error.get("content", error.get("message", ""))
    texts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(each.get("text", "")) for each in texts if isinstance(each, dict))
