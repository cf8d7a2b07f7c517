"""Drops thoughts in old turns of the model that have no calls."""

from __future__ import annotations

from dataclasses import replace

from bridge.context.base import LadderStep, Shortened
from bridge.context.history import History
from bridge.context.window import Window
from bridge.gemini.types import MODEL, Content


class OldThoughts(LadderStep):
    """Beside a call a thought stays, because the signature of the call may depend on it."""

    name = "old_thoughts"

    def apply(self, history: History, window: Window) -> Shortened:
        changed = {
            position: without_thoughts(turn)
            for position, turn in enumerate(history.turns[: history.before(0, window.grid)])
            if turn.role == MODEL and _has_needless_thoughts(turn)
        }
        removed = [len(history.turns[at].parts) - len(turn.parts) for at, turn in changed.items()]
        return Shortened(history.with_turns(changed), sum(removed))


def _has_needless_thoughts(turn: Content) -> bool:
    """A turn of thoughts alone stays: without it, two turns of the user would become one."""
    thoughts = sum(part.thought for part in turn.parts)
    return 0 < thoughts < len(turn.parts) and next(turn.calls(), None) is None


def without_thoughts(turn: Content) -> Content:
    return replace(turn, parts=tuple([part for part in turn.parts if not part.thought]))
