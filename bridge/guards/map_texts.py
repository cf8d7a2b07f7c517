"""The texts inside a JSON value, however deep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def with_texts(value: Any, change: Callable[[str], str], deepest: int) -> Any:
    """The value with each of its texts changed. What lies deeper than `deepest` is left as it is."""
    if isinstance(value, str):
        return change(value)
    if deepest > 0 and isinstance(value, Mapping):
        return {key: with_texts(item, change, deepest - 1) for key, item in value.items()}
    if deepest > 0 and isinstance(value, list):
        return [with_texts(item, change, deepest - 1) for item in value]
    return value
