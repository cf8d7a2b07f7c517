"""Finds the blocks of editors in a text.

A block counts only if it begins a line outside fenced code, and ends in the same text, because users who
discuss such blocks quote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bridge.settings.editors import EditorBlock

#: A shorter text has no block that is worth a mark.
SHORTEST_TEXT = 80


class Opener(NamedTuple):
    """How a block begins and ends, and whether it tells changes only."""

    block: EditorBlock
    close: str
    is_update: bool = False


class Found(NamedTuple):
    """A block in a text: `text[start:end]`."""

    opener: Opener
    start: int
    end: int


class BlockFinder:
    def __init__(self, blocks: Sequence[EditorBlock]) -> None:
        self._openers = {block.open: Opener(block, block.close) for block in blocks}
        for block in blocks:
            if block.update:
                self._openers[f"<{block.update}>"] = Opener(block, f"</{block.update}>", is_update=True)
        self._starts = tuple({opener[0] for opener in self._openers})
        opens = "|".join(map(re.escape, self._openers)) or "(?!)"
        self._lines = re.compile(
            rf"^(?:(?P<open>{opens})| {{0,3}}(?P<fence>`{{3,}}|~{{3,}})(?P<rest>.*))", re.MULTILINE
        )

    def in_text(self, text: str) -> list[Found]:
        if len(text) < SHORTEST_TEXT or not self._may_begin_a_block(text):
            return []
        return list(self._found(text)) if any(opener in text for opener in self._openers) else []

    def _may_begin_a_block(self, text: str) -> bool:
        """Whether a line begins like an opener: a fast test, which nearly all texts fail."""
        return text.startswith(self._starts) or any(f"\n{start}" in text for start in self._starts)

    def _found(self, text: str) -> Iterator[Found]:
        place, fence = 0, ""
        unclosed: set[str] = set()  #: those whose closer does not follow, so that it is searched for once
        while line := self._lines.search(text, place):
            place = line.end()
            opener = line["open"]
            if opener is None:
                fence = _fence_after(fence, line["fence"], line["rest"])
            elif not fence and opener not in unclosed:
                found = self._openers[opener]
                if (end := _end_of(found, text, place)) < 0:
                    unclosed.add(opener)
                else:
                    yield Found(found, line.start(), end)
                    place = end


def _end_of(opener: Opener, text: str, start: int) -> int:
    """-1 if the block has no end."""
    if opener.block.close_stays:
        return text.find("\n" + opener.close, start) + 1 or -1
    closer = text.find(opener.close, start)
    return closer + len(opener.close) if closer >= 0 else -1


def _fence_after(fence: str, marks: str, rest: str) -> str:
    """The fence that is open behind a line with these marks; empty: none."""
    if not fence:
        return "" if "`" in rest and marks[0] == "`" else marks
    closes = marks[0] == fence[0] and len(marks) >= len(fence) and not rest.strip()
    return "" if closes else fence
