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
        widths = _fitted(widths, left, columns)
    return [line for row in rows for line in _lines(row, widths, left)]


def _fitted(widths: Sequence[int], left: int, columns: int) -> list[int]:
    """The widths after the widest columns of text were made narrower, as far as that is possible."""
    fitted = list(widths)
    excess = sum(fitted) + len(GAP) * (len(fitted) - 1) - columns
    while excess > 0 and left:
        widest = max(range(left), key=fitted.__getitem__)
        if fitted[widest] <= NARROWEST:
            break
        fitted[widest] -= 1
        excess -= 1
    return fitted


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
