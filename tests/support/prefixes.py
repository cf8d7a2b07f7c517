"""Checks that a request starts with the previous one unchanged, as Gemini's implicit cache needs it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import orjson

#: The fields that Gemini reads before the contents.
FRONT = ("systemInstruction", "tools", "toolConfig")


def written(value: Any) -> bytes:
    """Return the exact bytes with the order of keys: equal values are not enough for a cache."""
    return orjson.dumps(value)


def assert_each_begins_as_the_one_before(bodies: Sequence[dict[str, Any]]) -> None:
    for number, (earlier, later) in enumerate(pairwise(bodies), 1):
        for field in FRONT:
            same = written(earlier.get(field)) == written(later.get(field))
            assert same, f"{field} of request {number + 1} is another than that of request {number}"
        turns = earlier["contents"]
        assert len(later["contents"]) > len(turns), f"request {number + 1} says nothing new"
        for place, (before, after) in enumerate(zip(turns, later["contents"], strict=False)):
            assert written(after) == written(before), f"contents[{place}] changed in request {number + 1}"
