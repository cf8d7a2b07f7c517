"""JSON objects in texts that clients and tools send, as far as they can be sent on as JSON."""

from __future__ import annotations

from typing import Any

import orjson

#: The writer goes 254 levels deep, and a request has some of its own around what a tool said.
_LEVELS_AROUND = 12


def object_in(text: str) -> dict[str, Any] | None:
    """The object that the text is; None if it is no object, or one too deep to be written again."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and can_be_sent(value, text) else None


def can_be_sent(value: Any, text: str) -> bool:
    """`text` is what the value was read from: without many brackets it cannot be deep."""
    if text.count("{") + text.count("[") < 200:
        return True
    for _ in range(_LEVELS_AROUND):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True
