"""A progress bar on a terminal. Anywhere else it prints nothing."""

from __future__ import annotations

import sys

WIDTH = 30


def show_progress(name: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        filled = WIDTH * done // total if total else WIDTH
        bar = "#" * filled + "." * (WIDTH - filled)
        print(f"\r[{bar}] {name}: {done} of {total}\x1b[K", end="", file=sys.stderr, flush=True)


def clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
