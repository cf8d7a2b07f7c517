"""The vendor's complete form of input items, which clients may abbreviate: as they are stored and listed."""

from __future__ import annotations

from typing import Any

from bridge.gemini.types import JsonObject

#: Items that have a status when they are listed.
_WITH_STATUS = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "tool_search_call",
        "tool_search_output",
    }
)

#: By the type of a content part: the fields that the vendor always lists.
_PART_DEFAULTS: dict[Any, dict[str, Any]] = {
    "input_image": {"detail": "auto"},
    "output_text": {"annotations": [], "logprobs": []},
}


def complete_item(item: JsonObject) -> dict[str, Any]:
    kind = item.get("type") or "message"
    complete: dict[str, Any] = {**item, "type": kind}
    if kind in _WITH_STATUS:
        complete["status"] = item.get("status") or "completed"
    if kind == "message":
        complete["content"] = _content(item.get("content"), item.get("role"))
    return complete


def _content(content: Any, role: Any) -> Any:
    if isinstance(content, str):
        content = [{"type": "output_text" if role == "assistant" else "input_text", "text": content}]
    return [_part(part) for part in content] if isinstance(content, list) else content


def _part(part: Any) -> Any:
    return {**_PART_DEFAULTS.get(part.get("type"), {}), **part} if isinstance(part, dict) else part
