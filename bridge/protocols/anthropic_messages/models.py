"""Anthropic's list of models, with names that Claude Code's model picker shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bridge.gemini.model_names import picker_name, plain_name, shown_in_picker
from bridge.gemini.types import JsonObject
from bridge.protocols.json_reading import invalid_field, quoted

#: The vendor's largest page, and the default here, since some clients never ask for the next page.
LARGEST_PAGE = 1000


def show_model(model: JsonObject) -> dict[str, Any]:
    created = datetime.fromtimestamp(model["created"], UTC)
    retires = model.get("retiresOn")
    return {
        "type": "model",
        "id": model["id"],
        "display_name": _title(model),
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "line": None,  # Anthropic's own families of models
        "lifecycle": "deprecated" if retires else "active",
        "deprecated_at": None,  # Google announces only the day of the end
        "retires_at": f"{retires}T00:00:00Z" if retires else None,
        "max_input_tokens": model.get("inputTokenLimit"),
        "max_tokens": model.get("outputTokenLimit"),
        "capabilities": _capabilities(model),
    }


def _capabilities(model: JsonObject) -> dict[str, Any]:
    """What a request to the bridge can use with this model."""
    chats = "generateContent" in model.get("supportedGenerationMethods", ("generateContent",))
    chat, no = {"supported": chats}, {"supported": False}
    levels = model.get("thinkingLevels", ())
    thinks = {"supported": chats and bool(levels or model.get("thinking"))}
    efforts = {level: {"supported": level in levels} for level in ("low", "medium", "high")}
    kinds = {"adaptive": thinks, "enabled": thinks, "disabled": chat, "between_tools": chat}
    return {
        "batch": no,
        "citations": no,  # of documents
        "code_execution": chat,
        "compaction": {**chat, "summarize": chat},
        "context_management": {
            **chat,
            "clear_thinking_20251015": chat,
            "clear_tool_uses_20250919": chat,
            "compact_20260112": chat,
        },
        "effort": {"supported": bool(levels), **efforts, "xhigh": no, "max": no},
        "image_input": chat,
        "pdf_input": chat,
        "server_tools": {**chat, "code_execution": chat, "web_search": chat},
        "structured_outputs": chat,
        "thinking": {**thinks, "types": kinds},
    }


def list_models(models: Sequence[JsonObject], query: Mapping[str, str]) -> dict[str, Any]:
    everything = [*_for_the_picker(models), *models]
    start, end = _page([model["id"] for model in everything], query)
    data = [show_model(model) for model in everything[start:end]]
    return {
        "data": data,
        "has_more": start > 0 if query.get("before_id") else end < len(everything),
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }


def _for_the_picker(models: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """The upstream's models, and configured names that look like Anthropic's."""
    for model in models:
        name = model["id"]
        if name == _served_by(model) or shown_in_picker(name):
            shown_as = picker_name(name, model.get("inputTokenLimit") or 0)
            if shown_as != name:
                yield {**model, "id": shown_as}


def _title(model: JsonObject) -> str:
    """The display name, with the upstream model if the name does not contain it."""
    name, served_by = model["id"], _served_by(model)
    title = str(model.get("displayName") or served_by or name)
    return title if plain_name(name) == served_by or title == name else f"{name} ({title})"


def _served_by(model: JsonObject) -> str:
    """The upstream's name of the model."""
    return str(model.get("name", "")).removeprefix("models/")


# --- pages -------------------------------------------------------------------------------------------


def _page(ids: Sequence[str], query: Mapping[str, str]) -> tuple[int, int]:
    limit = _limit(query)
    if query.get("before_id"):
        end = _position(ids, query, "before_id")
        return max(0, end - limit), end
    start = _position(ids, query, "after_id") + 1 if query.get("after_id") else 0
    return start, min(start + limit, len(ids))


def _limit(query: Mapping[str, str]) -> int:
    given = query.get("limit", str(LARGEST_PAGE))
    if not (given.isascii() and given.isdecimal() and 1 <= int(given[:9]) <= LARGEST_PAGE):
        raise invalid_field(f"must be a whole number from 1 to {LARGEST_PAGE}, not {quoted(given)}", "limit")
    return int(given)


def _position(ids: Sequence[str], query: Mapping[str, str], cursor: str) -> int:
    if query[cursor] not in ids:
        raise invalid_field(f"there is no model {quoted(query[cursor])} in the list", cursor)
    return ids.index(query[cursor])
