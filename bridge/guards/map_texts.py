"""Applies a function to all texts inside a JSON value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def map_texts(value: Any, change: Callable[[str], str], max_depth: int) -> Any:
    """The value with each text changed. Anything deeper than `max_depth` stays unchanged."""
    if isinstance(value, str):
        return change(value)
    if max_depth > 0 and isinstance(value, Mapping):
        return {key: map_texts(item, change, max_depth - 1) for key, item in value.items()}
    if max_depth > 0 and isinstance(value, list):
        return [map_texts(item, change, max_depth - 1) for item in value]
    return value
