"""The models of a bridge as Codex's `model_catalog_json` wants them.

Of a model that is in no catalogue Codex believes that it has 272,000 tokens, and compacts a conversation long
before Gemini's window is full.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from bridge.gemini.types import JsonObject

PATH = "/connect/codex-models.json"  #: where a bridge serves its catalogue
FILE = "gemini-bridge-models.json"  #: what the settings call it; Codex looks for it beside its config.toml


def catalog(models: Iterable[JsonObject]) -> JsonObject:
    """`models` are described in Google's words."""
    return {"models": [_entry(model, place) for place, model in enumerate(models)]}


def _entry(model: JsonObject, place: int) -> JsonObject:
    """Codex's picker shows the models by their own names; by others they can be asked for too."""
    name, window = model["id"], model.get("inputTokenLimit")
    entry: dict[str, Any] = {
        "slug": name,
        "display_name": model.get("displayName") or name,
        "visibility": "list" if model.get("name") == f"models/{name}" else "hide",
        "priority": place,
        **_every_model(),
    }
    return {**entry, "context_window": window} if window else entry


@cache
def _every_model() -> JsonObject:
    return tomllib.loads(files(__package__).joinpath("codex_catalog.toml").read_text("utf-8"))
