"""Fields of a Messages request that Gemini does not have: refused if the answer would be wrong without them,
otherwise dropped and counted."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.gemini.types import JsonObject
from bridge.protocols.json_reading import invalid_field

_DROPPED = (
    "billing_policy",
    "container",
    "diagnostics",
    "fallback_credit_token",
    "fallbacks",
)
_REFUSED: Mapping[str, str] = {
    # This error makes Claude Code run the checks itself.
    "safeguards": "Gemini makes no such checks; the client can make them itself",
    "inference_geo": "the bridge cannot choose the region for one request; leave it out",
    "thread": "the bridge keeps no threads; send the whole conversation in messages",
}


def reject_unsupported_fields(body: JsonObject) -> None:
    for name, problem in _REFUSED.items():
        if body.get(name):
            raise invalid_field(problem, name)


def lost_fields(body: JsonObject) -> list[str]:
    names = [name for name in _DROPPED if body.get(name)]
    if body.get("speed") == "fast":
        names.append("speed")
    if (body.get("output_config") or {}).get("task_budget"):
        names.append("task_budget")
    if (thinking := body.get("thinking") or {}).get("block_binding"):
        names.append("block_binding")
    if thinking.get("display") == "updates":
        names.append("thinking_updates")
    if thinking.get("type") == "between_tools":
        names.append("between_tools")
    if (body.get("tool_choice") or {}).get("disable_parallel_tool_use"):
        names.append("disable_parallel_tool_use")
    return [f"messages.{name}" for name in names]


def lost_block_fields(block: JsonObject) -> list[str]:
    """The dropped fields of a user's content block and of the blocks that it contains."""
    losses = ["messages.transformations"] if block.get("transformations") else []
    citations = block.get("citations")
    if isinstance(citations, dict) and citations.get("enabled"):
        losses.append("messages.citations")
    source = block.get("source")
    inner = source.get("content") if isinstance(source, dict) else block.get("content")
    for each in inner if isinstance(inner, list) else ():
        if isinstance(each, dict):
            losses += lost_block_fields(each)
    return losses
