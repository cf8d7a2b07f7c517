"""Prefix and suffix that some clients need in a model name.

Claude Code assumes a window of a million tokens if a name ends with `[1m]`, and its model picker shows only
names that begin with `claude` or `anthropic`. The bridge adds both to a model's name, and removes them before
it looks a name up.
"""

from __future__ import annotations

WIDE_SUFFIX = "[1m]"
WIDE_WINDOW = 1_000_000  #: tokens that a client assumes for a name with this suffix

PICKER_PREFIX = "claude/"  #: no vendor's model name contains it, so it is safe before any name
_SHOWN_IN_PICKER = ("claude", "anthropic")


def plain_name(name: str) -> str:
    """The name without prefix and suffix: the name to look up and to check against a key's allowed models."""
    plain = name.removeprefix("models/").removeprefix(PICKER_PREFIX)
    return plain[: -len(WIDE_SUFFIX)] if plain.lower().endswith(WIDE_SUFFIX) else plain


def shown_in_picker(name: str) -> bool:
    return name.startswith(_SHOWN_IN_PICKER)


def picker_name(name: str, window: int) -> str:
    """The name with which Claude Code's picker shows a model and uses its whole window."""
    shown = name if shown_in_picker(name) else PICKER_PREFIX + name
    return shown + WIDE_SUFFIX if window >= WIDE_WINDOW else shown
