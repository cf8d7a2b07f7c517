"""Drops the oldest turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from bridge.context.base import LadderStep, Shortened
from bridge.context.estimate import part_tokens
from bridge.context.history import History, is_opening
from bridge.context.window import Window
from bridge.gemini.context_steps import LEADING_TURNS
from bridge.gemini.types import MODEL, Content, Part

GONE = Part("Earlier turns of this conversation were removed to save space.")
#: What is dropped is rounded up to this part of the grid. The model's counts vary a little from request to
#: request, and each other cut would change the beginning of the prompt.
ROUNDING = 4


class _Cut(NamedTuple):
    """The turn `first` stays, and the turns from `rest` on: the next turn, or a later turn of the model."""

    first: int
    rest: int


class LeadingTurns(LadderStep):
    """The conversation then begins with a later turn of the user that has no results. The oldest calls after
    that turn may be dropped too, with their results, so that a long tool loop keeps its task."""

    name = LEADING_TURNS

    def apply(self, history: History, window: Window) -> Shortened:
        space = history.until_next_move(window.grid)
        step = max(window.grid // ROUNDING, 1)
        added = part_tokens(GONE) + sum(map(part_tokens, history.carried))
        excess = history.tokens + space + added - window.room
        cut = _shortest(history, -(-excess // step) * step)
        if cut is None:
            return Shortened(history)
        first = history.turns[cut.first]
        carried = tuple([part for part in history.carried if part not in first.parts])
        opening = replace(first, parts=(*carried, GONE, *first.parts))
        return Shortened(history.with_span(0, cut.rest, (opening,)), cut.rest - 1)


def _shortest(history: History, needed: int) -> _Cut | None:
    """The cut that removes the fewest tokens of those that remove enough; the longest if none does."""
    removed, counted, cut = 0, 0, None
    for cut in _cuts(history.turns):
        removed += sum(history.sizes[counted : cut.rest])
        counted = cut.rest
        if removed - history.sizes[cut.first] >= needed:
            break
    return cut


def _cuts(turns: Sequence[Content]) -> Iterator[_Cut]:
    """The legal cuts, each longer than the one before. The last turn always stays, and so does the turn that
    it answers."""
    opening = None
    for position, turn in enumerate(turns):
        if is_opening(turn):
            opening = position
            if position > 0:
                yield _Cut(position, position + 1)
        elif turn.role == MODEL and opening is not None and opening + 1 < position < len(turns) - 1:
            yield _Cut(opening, position)
