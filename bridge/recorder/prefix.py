"""Compares a request with the one before it in the conversation: a prompt cache covers an equal beginning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bridge.recorder.flight import GEMINI_REQUEST, PREFIX, Line, of_stage

#: What a prompt begins with, before the turns.
_AHEAD = ("tools", "toolConfig", "systemInstruction")


def prefix_line(previous_id: str, previous: Iterable[Line], line: Line) -> Line | None:
    """None if one of the flights has no request. `line` is this flight's line of its request."""
    sent = of_stage(previous, GEMINI_REQUEST)
    before, now = (sent[-1].get("body") if sent else None), line.get("body")
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return None
    changed = [name for name in _AHEAD if before.get(name) != now.get(name)]
    turns_before, turns = _turns(before), _turns(now)
    same = _same_at_the_beginning(turns_before, turns)
    return {
        "stage": PREFIX,
        "previous": previous_id,
        "changed": changed,
        "same_turns": same,
        "turns_before": len(turns_before),
        "turns": len(turns),
        # None: this request continues the one before.
        "first_different_turn": None if same == len(turns_before) <= len(turns) else same + 1,
    }


def _turns(body: Mapping[str, Any]) -> list[Any]:
    found = body.get("contents")
    return found if isinstance(found, list) else []


def _same_at_the_beginning(before: list[Any], now: list[Any]) -> int:
    pairs = zip(before, now, strict=False)
    different = (number for number, (one, other) in enumerate(pairs) if one != other)
    return next(different, min(len(before), len(now)))
