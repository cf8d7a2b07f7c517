"""Models as Anthropic lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bridge.gemini.types import JsonObject


def show_model(model: JsonObject) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model["id"],
        "display_name": model.get("displayName") or model["id"],
        "created_at": datetime.fromtimestamp(model["created"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def list_models(models: Sequence[JsonObject], _query: Mapping[str, str]) -> dict[str, Any]:
    shown = [show_model(model) for model in models]
    ids = [model["id"] for model in shown] or [None]
    return {"data": shown, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}
