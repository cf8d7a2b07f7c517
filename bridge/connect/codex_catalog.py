"""The models of a bridge in the format of Codex's `model_catalog_json`.

For a model outside its catalogue Codex assumes a window of 272,000 tokens, so it compacts a conversation long
before Gemini's window is full.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from bridge.gemini.types import JsonObject

PATH = "/connect/codex-models.json"  #: the route under which a bridge serves its catalogue
FILE = "gemini-bridge-models.json"  #: the file name in the settings, relative to Codex's config.toml


def catalog(models: Iterable[JsonObject]) -> JsonObject:
    """The catalogue for `models`, which are in Google's format."""
    return {"models": [_entry(model, place) for place, model in enumerate(models)]}


def _entry(model: JsonObject, place: int) -> JsonObject:
    """One model. Codex's model picker shows only the models' own names; aliases work but are hidden."""
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
