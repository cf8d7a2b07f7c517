"""Patterns for model names: `*` matches any text, and letter case does not matter."""

from __future__ import annotations

import re
from collections.abc import Iterable

NOTHING = "(?!)"  #: matches nothing; an empty expression would match the empty name


class Patterns:
    def __init__(self, patterns: Iterable[str]) -> None:
        choices = "|".join(".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
        self._match = re.compile(choices or NOTHING, re.IGNORECASE | re.DOTALL).fullmatch

    def match(self, name: str) -> bool:
        return self._match(name) is not None
