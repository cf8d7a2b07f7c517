"""Rows of cells as lines of text, each column as wide as it must be."""

from __future__ import annotations

from collections.abc import Sequence


def lined_up(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [line.rstrip() for line in padded]
