"""Google's list of models, in pages if the client asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridge.gemini.types import JsonObject
from bridge.protocols.json_reading import invalid_field

LARGEST_PAGE = 1000
#: Fields that the bridge adds for other protocols.
_BRIDGE_FIELDS = ("id", "created", "retiresOn", "thinkingLevels")


def show_model(model: JsonObject) -> dict[str, Any]:
    described = {name: value for name, value in model.items() if name not in _BRIDGE_FIELDS}
    return {**described, "name": f"models/{model['id']}"}


def list_models(models: Sequence[JsonObject], query: Mapping[str, str]) -> dict[str, Any]:
    start = _whole(query, "pageToken", 0)
    end = start + min(_whole(query, "pageSize", 0) or len(models), LARGEST_PAGE)
    page: dict[str, Any] = {"models": [show_model(model) for model in models[start:end]]}
    return {**page, "nextPageToken": str(end)} if end < len(models) else page


def _whole(query: Mapping[str, str], name: str, default: int) -> int:
    given = query.get(name) or str(default)
    if not given.isascii() or not given.isdecimal():
        problem = "must be a whole number" if name == "pageSize" else "is not a page token of this bridge"
        raise invalid_field(problem, name)
    return int(given[:9])
