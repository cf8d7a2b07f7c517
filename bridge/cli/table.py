"""Rows of cells as lines of text, each column as wide as it must be."""

from __future__ import annotations

from collections.abc import Sequence


def lined_up(rows: Sequence[Sequence[str]], right_from: int | None = None) -> list[str]:
    """From column `right_from` on, cells are numbers and stand at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = len(widths) if right_from is None else right_from
    padded = (
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return [line.rstrip() for line in padded]
