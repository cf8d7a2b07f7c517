"""The vendor's complete form of items, which clients may abbreviate: as they are stored and listed."""

from __future__ import annotations

from typing import Any

from bridge.gemini.types import JsonObject
from bridge.ids_and_clock import random_id

#: By the type of the item: the prefix of its id.
_PREFIXES = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "reasoning": "rs_",
    "compaction": "cmp_",
}
#: Items that have no status.
_WITHOUT_STATUS = frozenset(
    {"reasoning", "compaction", "compaction_summary", "context_compaction", "additional_tools"}
)
_STATUSES = ("in_progress", "completed", "incomplete", "failed")
#: By the type of a content part: the fields that the vendor always lists.
_PART_DEFAULTS: dict[str, JsonObject] = {
    "input_image": {"detail": "auto"},
    "output_text": {"annotations": [], "logprobs": []},
}


def input_list(given: Any) -> list[Any]:
    """The input of a request as items."""
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def complete_item(item: JsonObject) -> dict[str, Any]:
    """The item with its id and the other fields that the vendor's items always have."""
    kind = str(item.get("type") or "message")
    given_id, status = item.get("id"), item.get("status")
    named = given_id if given_id and isinstance(given_id, str) else random_id(_PREFIXES.get(kind, "item_"))
    complete = {**item, "type": kind, "id": named}
    if kind not in _WITHOUT_STATUS:
        complete["status"] = status if status in _STATUSES else "completed"
    if kind == "message":
        complete["content"] = _content(item.get("content"), item.get("role"))
    return complete


def _content(content: Any, role: Any) -> Any:
    if isinstance(content, str):
        content = [{"type": "output_text" if role == "assistant" else "input_text", "text": content}]
    return [_part(part) for part in content] if isinstance(content, list) else content


def _part(part: Any) -> Any:
    return {**_PART_DEFAULTS.get(str(part.get("type")), {}), **part} if isinstance(part, dict) else part
