"""Maps tool names to names that Gemini accepts, and back.

Gemini requires a letter or underscore first, then letters, digits and `_.:-`, and some of its environments
truncate names to 63 characters. A changed name ends with a hash of the whole name, so two long names never
collide. The change depends on the name alone: a tool has the same name in every turn, so Gemini's prefix
cache keeps working.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

LONGEST_LEGAL = 63
_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,62}")
_ILLEGAL_CHARACTER = re.compile(r"[^A-Za-z0-9_.:-]")


#: Clients choose the names. Longer names are not cached, so that they cannot fill the memory.
LONGEST_CACHED = 512


def legal_name(name: str) -> str:
    return _cached_legal_name(name) if len(name) <= LONGEST_CACHED else _make_legal(name)


@lru_cache(1024)
def _cached_legal_name(name: str) -> str:
    return _make_legal(name)


def _make_legal(name: str) -> str:
    if _LEGAL.fullmatch(name):
        return name
    tail = sha256(name.encode()).hexdigest()[:8]
    head = _ILLEGAL_CHARACTER.sub("_", name)
    if not _LEGAL.match(head):
        head = f"_{head}"
    return f"{head[: LONGEST_LEGAL - len(tail) - 1]}_{tail}"


class ToolNames:
    """The names of one request, in both directions."""

    def __init__(self) -> None:
        self._original: dict[str, str] = {}

    def to_gemini(self, name: str) -> str:
        legal = legal_name(name)
        if legal != name:
            self._original[legal] = name
        return legal

    def from_gemini(self, name: str) -> str:
        return self._original.get(name, name)
