"""Formats rows of cells as a text table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from bridge.cli.text_width import display_width, terminal_width, wrapped

GAP = "  "
NARROWEST = 8  #: columns of text are not made narrower to fit the terminal


def format_table(rows: Sequence[Sequence[str]], right_from: int | None = None) -> list[str]:
    """The lines of the table. Columns from `right_from` on hold numbers and are aligned to the right. On a
    terminal that is too narrow, cells of text take several lines; no text is cut off."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    left = len(widths) if right_from is None else right_from
    if (columns := terminal_width()) is not None:
        room = columns - len(GAP) * (len(widths) - 1)
        words = [max(map(_longest_word, column)) for column in zip(*rows, strict=True)]
        widths = _narrowed(widths, words[:left], room)  # between words, as long as that is enough
        widths = _narrowed(widths, [NARROWEST] * left, room)
    return [line for row in rows for line in _lines(row, widths, left)]


def _longest_word(cell: str) -> int:
    return max(map(display_width, cell.split()), default=0)


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The widths after the widest columns of text were made narrower, as far as `least` allows."""
    narrowed = list(widths)
    while sum(narrowed) > room:
        can_be = [place for place, width in enumerate(least) if narrowed[place] > width]
        if not can_be:
            break
        narrowed[max(can_be, key=narrowed.__getitem__)] -= 1
    return narrowed


def _lines(row: Sequence[str], widths: Sequence[int], left: int) -> list[str]:
    cells = [
        wrapped(cell, width) if display_width(cell) > width else [cell]
        for cell, width in zip(row, widths, strict=True)
    ]
    return [
        GAP.join(
            _padded(part, width, to_the_left=place < left)
            for place, (part, width) in enumerate(zip(parts, widths, strict=True))
        ).rstrip()
        for parts in zip_longest(*cells, fillvalue="")
    ]


def _padded(text: str, width: int, *, to_the_left: bool) -> str:
    blanks = " " * (width - display_width(text))
    return text + blanks if to_the_left else blanks + text
