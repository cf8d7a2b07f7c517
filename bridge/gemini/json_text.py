"""JSON objects in texts that clients and tools send, as far as they can be sent on as JSON."""

from __future__ import annotations

from typing import Any

import orjson

#: The writer goes 254 levels deep, and a request has some of its own around what a tool said.
_LEVELS_AROUND = 12
#: So many can be written for sure.
SAFE_LEVELS = 200


def parse_object(text: str) -> dict[str, Any] | None:
    """The object that the text is; None if it is no object, or one too deep to be written again."""
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
    """`brackets` is how many the text had that the value was read from: without many it cannot be deep."""
    if brackets < SAFE_LEVELS:
        return True
    for _ in range(_LEVELS_AROUND):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True
