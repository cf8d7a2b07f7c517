"""Parses JSON objects in texts from clients and tools, if they can be serialised again."""

from __future__ import annotations

from typing import Any

import orjson

#: orjson writes at most 254 levels. A request has some levels of its own around a tool's result.
_LEVELS_AROUND = 12
#: A value with fewer brackets than this can always be serialised.
SAFE_LEVELS = 200


def parse_object(text: str) -> dict[str, Any] | None:
    """The object in the text, or None if the text is not an object or is nested too deeply to serialise."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and can_be_serialised(value, count_brackets(text)) else None


def count_brackets(text: str) -> int:
    return text.count("{") + text.count("[")


def can_be_serialised(value: Any, brackets: int) -> bool:
    """`brackets`: the number of brackets in the source text. A value with few brackets cannot be deep."""
    if brackets < SAFE_LEVELS:
        return True
    for _ in range(_LEVELS_AROUND):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True
