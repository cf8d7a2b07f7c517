"""Drops calls that a client sends twice, with their results.

A client that appends the whole history of an automatic tool loop to a history that has it already repeats the
same calls: same ids, names, arguments and results. Equal calls with other ids are real repetitions and stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from bridge.context.base import Edited, RequestEdit
from bridge.gemini.history import repair_history
from bridge.gemini.types import Content, FunctionCall, FunctionResponse, GenerateRequest

REPEATED_TURNS = "history.repeated_turns"


class RepeatedTurns(RequestEdit):
    name = "repeated_turns"

    def apply(self, request: GenerateRequest) -> Edited:
        ids = [
            part.data.id
            for content in request.contents
            for part in content.parts
            if isinstance(part.data, FunctionCall) and part.data.id
        ]
        if len(set(ids)) == len(ids):
            return Edited(request)
        rounds = _Rounds()
        kept = tuple(_without_repeated(repair_history(request.contents, prefill=True).contents, rounds))
        if not rounds.repeated:
            return Edited(request)
        notes = (REPEATED_TURNS,) * rounds.repeated
        return Edited(replace(request, contents=kept), rounds.repeated, notes)


class _Round(NamedTuple):
    """The calls of a turn, and the results in the next turn."""

    turn: tuple[Any, ...]
    results: tuple[Any, ...]


class _Rounds:
    """The rounds so far, by the ids of their calls. Some clients use the same ids for other calls again;
    from then on these ids prove nothing."""

    def __init__(self) -> None:
        self._first: dict[str, _Round | None] = {}
        self.repeated = 0  #: how many rounds were repetitions

    def is_repeated(self, turn: Content, following: Content) -> bool:
        ids = [call.id for call in turn.calls() if call.id]
        if not ids or len(ids) != sum(1 for _ in turn.calls()):
            return False
        found = _Round(_said(turn), _results(following))
        if all(name in self._first for name in ids) and self._first[ids[0]] == found:
            self.repeated += 1
            return True
        for name in ids:
            self._first[name] = None if name in self._first else found
        return False


def _without_repeated(turns: tuple[Content, ...], rounds: _Rounds) -> Iterator[Content]:
    repeated = False
    for turn, following in zip(turns, (*turns[1:], Content(None)), strict=True):
        if repeated:  # this turn has the results of the dropped calls
            repeated = False
            others = tuple(part for part in turn.parts if not isinstance(part.data, FunctionResponse))
            if others:
                yield replace(turn, parts=others)
            continue
        repeated = rounds.is_repeated(turn, following)
        if not repeated:
            yield turn


def _said(turn: Content) -> tuple[Any, ...]:
    return tuple(part.data for part in turn.parts if not part.thought)


def _results(turn: Content) -> tuple[Any, ...]:
    return tuple(part.data for part in turn.parts if isinstance(part.data, FunctionResponse))
