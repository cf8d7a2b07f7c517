"""OpenAI's list of models, extended by Google's token limits for clients that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridge.gemini.types import JsonObject


def show_model(model: JsonObject) -> dict[str, Any]:
    entry = {"id": model["id"], "object": "model", "created": model["created"], "owned_by": "google"}
    limits = {
        "context_window": model.get("inputTokenLimit"),
        "max_output_tokens": model.get("outputTokenLimit"),
    }
    return entry | {name: limit for name, limit in limits.items() if limit is not None}


def list_models(models: Sequence[JsonObject], _query: Mapping[str, str]) -> dict[str, Any]:
    return {"object": "list", "data": [show_model(model) for model in models]}
