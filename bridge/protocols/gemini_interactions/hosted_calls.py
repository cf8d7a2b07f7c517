"""Steps of tools that the bridge runs: Google's steps for the tools of MCP servers."""

from __future__ import annotations

from typing import Any

from bridge.gemini.hosted_tools import HostedCall, HostedKind, hosted_in
from bridge.gemini.types import JsonObject, PartData
from bridge.protocols.hosted_lines import result_text

CALL, RESULT = "mcp_server_tool_call", "mcp_server_tool_result"
OWN_SERVER = "bridge"  #: the name for tools that belong to no server


def hosted_step(data: PartData) -> tuple[JsonObject, dict[str, Any]] | None:
    """A step and the delta that completes it; None if the data is no call of such a tool, and no result."""
    hosted = hosted_in(data)
    if hosted is None or hosted.kind is not HostedKind.CALL:
        return None
    named = {"name": hosted.name, "server_name": hosted.server or OWN_SERVER}
    if isinstance(hosted, HostedCall):
        arguments = dict(hosted.arguments)
        step = {"type": CALL, "id": hosted.id, **named, "arguments": {}}
        return step, {"type": CALL, **named, "arguments": arguments}
    step = {"type": RESULT, "call_id": hosted.id, **named, "result": ""}
    return step, {"type": RESULT, **named, "result": result_text(hosted.response)}
