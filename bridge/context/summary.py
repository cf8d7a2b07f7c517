"""Replaces old turns by a summary that exists. `bridge/exchange/summaries.py` has a model write summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bridge.context.base import LadderStep, Shortened
from bridge.context.history import History, KnownSummary, is_opening
from bridge.context.window import Window
from bridge.gemini.summary_part import marked, summary_turn
from bridge.gemini.types import USER, Content, Part
from bridge.settings.context import ContextSettings


class Summary(LadderStep):
    """Of the summaries that exist, the oldest that makes the history fit is used: a newer one, which may have
    been made ahead of need, would change the beginning of the prompt earlier than necessary."""

    name = "summary"

    def apply(self, history: History, window: Window) -> Shortened:
        shorter, replaced = history, 0
        space = history.until_next_move(window.grid)
        for known in history.summaries:
            start = kept_first(history.turns, self.settings.first_turns)
            if not start < known.end < len(history.turns) or not history.is_opening(known.end):
                continue
            shorter, replaced = _with_summary(history, start, known), known.end - start
            if shorter.tokens + space <= window.room:
                break
        # If there can be a newer summary, it makes the space that the conversation needs to grow.
        for_now = replaced > 0 and next_cut(history, window, self.settings) is not None
        return Shortened(shorter, replaced, for_now)


def _with_summary(history: History, start: int, known: KnownSummary) -> History:
    """The summary becomes the first part of the turn that follows it, because turns of the user must not
    follow each other. If the turns that stay end with the user's, all of this is one turn."""
    part = Part(marked(known.text))
    following = history.turns[known.end]
    before = history.turns[start - 1].parts if start and history.turns[start - 1].role == USER else ()
    first = start - 1 if before else start
    opening = replace(following, parts=(*before, part, *following.parts))
    shorter = history.with_span(first, known.end + 1, (opening,))
    return replace(shorter, carried=(*history.carried, part))


def kept_first(turns: Sequence[Content], most: int) -> int:
    """The number of turns at the beginning that stay: up to a turn of the user without results, or else only
    the first one, which has the user's task."""
    starts = [at for at in range(1, min(most, len(turns) - 1) + 1) if is_opening(turns[at])]
    return max(starts, default=min(most, 1))


def next_cut(history: History, window: Window, settings: ContextSettings) -> int | None:
    """The turn before which the next summary should end: a turn of the user without results, so that neither
    a call and its result nor the running tool loop is cut. None if that would save too little."""
    begin = kept_first(history.turns, settings.first_turns)
    begin = max((known.end for known in history.summaries), default=begin)
    latest = len(history.turns) - settings.last_turns
    for protected in (window.protected, 0):
        end = min(history.before(protected, window.grid), latest)
        cut = next((at for at in range(end, begin, -1) if history.is_opening(at)), None)
        if cut is not None and sum(history.sizes[begin:cut]) >= window.least_saved:
            return cut
    return None


def turns_to_summarise(history: History, end: int, settings: ContextSettings) -> tuple[Content, ...]:
    """The turns before `end` that the newest summary does not cover, after that summary."""
    if history.summaries:
        newest = history.summaries[-1]
        return (summary_turn(newest.text), *history.turns[newest.end : end])
    return history.turns[kept_first(history.turns, settings.first_turns) : end]
