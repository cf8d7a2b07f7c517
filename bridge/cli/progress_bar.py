"""A progress bar on a terminal. Anywhere else it prints nothing."""

from __future__ import annotations

import shutil
import sys

WIDTH = 30


def show_progress(name: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        filled = WIDTH * done // total if total else WIDTH
        bar = "#" * filled + "." * (WIDTH - filled)
        # A line that is longer than the terminal would not be overwritten by the next one.
        line = f"[{bar}] {name}: {done:,} of {total:,}"[: shutil.get_terminal_size().columns - 1]
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)


def clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
