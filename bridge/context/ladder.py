"""Applies the steps of the ladder, one after the other, until the history fits into the window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bridge.context.base import LadderStep
from bridge.context.history import History, step_taken
from bridge.context.window import Window
from bridge.gemini.context_steps import StepTaken


class Fitted(NamedTuple):
    history: History
    taken: tuple[StepTaken, ...]


def fits(history: History, window: Window) -> bool:
    return history.tokens <= window.room


def shorten(history: History, window: Window, steps: Iterable[LadderStep]) -> Fitted:
    """The history after as many steps as it needs; it may still be too long after the last one.

    A step leaves space for the growth until the grid moves. Otherwise each turn would need another cut.
    """
    taken: list[StepTaken] = []
    if fits(history, window):
        return Fitted(history, ())
    space = history.until_next_move(window.grid)
    for step in steps:
        if history.tokens + space <= window.room:
            break
        shorter, changes, for_now = step.apply(history, window)
        if shorter is not history:
            taken.append(step_taken(step.name, changes, history, shorter, window.scale))
            history = shorter
            if for_now and fits(history, window):
                break
    return Fitted(history, tuple(taken))
