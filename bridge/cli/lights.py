"""Green and red lines, in colour where a person looks at them."""

from __future__ import annotations

import os
import sys

GREEN, RED, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[0m"


def light(good: bool) -> str:
    sign, colour = ("✓", GREEN) if good else ("✗", RED)
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return f"{colour}{sign}{PLAIN}" if coloured else sign
