"""Colours for output on a terminal."""

from __future__ import annotations

import os
import sys

GREEN, YELLOW, RED = 32, 33, 31


def coloured(text: str, colour: int) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


def check_mark(good: bool) -> str:
    return coloured("✓", GREEN) if good else coloured("✗", RED)
