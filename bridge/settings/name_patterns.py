"""Patterns for model names: `*` matches any text, and letter case does not matter."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

NOTHING = "(?!)"  #: matches nothing; an empty expression would match the empty name


class Patterns:
    def __init__(self, patterns: Iterable[str]) -> None:
        choices = "|".join(".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
        self._match = re.compile(choices or NOTHING, re.IGNORECASE | re.DOTALL).fullmatch

    def match(self, name: str) -> bool:
        return self._match(name) is not None


@cache
def patterns_meet(one: str, other: str) -> bool:
    """Whether some name matches both patterns. Letter case matters here."""
    if not one or not other:
        return not (one + other).strip("*")
    if one[0] == "*":
        return patterns_meet(one[1:], other) or patterns_meet(one, other[1:])
    if other[0] == "*":
        return patterns_meet(other, one)
    return one[0] == other[0] and patterns_meet(one[1:], other[1:])
