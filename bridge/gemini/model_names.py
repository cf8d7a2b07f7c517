"""What some clients need in the name of a model, and the name without it.

Claude Code believes in a window of a million tokens where a name ends with `[1m]`, and its picker shows only
names that begin with `claude` or `anthropic`. Both are put on a model's own name, and taken off again before
anybody looks the name up.
"""

from __future__ import annotations

WIDE_MARK = "[1m]"
WIDE_WINDOW = 1_000_000  #: tokens that a client expects of a model so marked

PICKER_PREFIX = "claude/"  #: no vendor's name has a slash there, so that it can stand before any other
_SHOWN_IN_PICKER = ("claude", "anthropic")


def plain_name(name: str) -> str:
    """The name to look up, and the one by which a key allows or forbids."""
    plain = name.removeprefix("models/").removeprefix(PICKER_PREFIX)
    return plain[: -len(WIDE_MARK)] if plain.lower().endswith(WIDE_MARK) else plain


def shown_in_picker(name: str) -> bool:
    return name.startswith(_SHOWN_IN_PICKER)


def picker_name(name: str, window: int) -> str:
    """The name under which Claude Code's picker shows a model, and believes in the whole of its window."""
    shown = name if shown_in_picker(name) else PICKER_PREFIX + name
    return shown + WIDE_MARK if window >= WIDE_WINDOW else shown
