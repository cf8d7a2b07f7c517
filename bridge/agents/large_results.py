"""Shortens a large result for the model; the whole result stays with the call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from bridge.gemini.types import JsonObject
from bridge.guards.large_output import truncate

MOST_CHARACTERS = 50_000  #: of one result
SHARE = 5  #: the first and the last fifth of the lines are kept
_HINT = "[… {count} lines left out: the result has {size} characters. Ask for a smaller part of it …]"


def shortened(response: JsonObject) -> JsonObject:
    """The same object if it is short enough."""
    if size_of(response) <= MOST_CHARACTERS:
        return response
    texts = {name: value for name, value in response.items() if isinstance(value, str)}
    if len(texts) == 1 == len(response):
        ((name, text),) = texts.items()
        return {name: shortened_text(text)}
    return {"output": shortened_text(_as_text(response))}


def shortened_text(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    lines = text.splitlines()
    kept = len(lines) // SHARE
    hint = _HINT.format(count=len(lines) - 2 * kept, size=len(text))
    short = "\n".join((*lines[:kept], hint, *lines[len(lines) - kept :])) if kept else text
    return truncate(short, MOST_CHARACTERS)  # few long lines


def _as_text(response: JsonObject) -> str:
    return orjson.dumps(dict(response), option=orjson.OPT_INDENT_2, default=str).decode()


def size_of(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(name)) + size_of(item) for name, item in value.items())
    if isinstance(value, list):
        return sum(map(size_of, value))
    return len(str(value))
