"""Repairs a conversation so that it follows Gemini's rules.

Gemini requires turns that alternate and begin with the user; no empty part; after each turn with calls, a
user turn that begins with exactly one response per call, in the order of the calls; and, for newer models, no
model turn at the end. Clients send results late, out of order, twice, or not at all. The notes name what was
added or moved, so that metrics can count it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from bridge.gemini.types import EMPTY, MODEL, USER, Content, FunctionCall, FunctionResponse, Part

NO_RESULT = "No result was recorded for this call."
NUDGE = "Continue."


class RepairedHistory(NamedTuple):
    contents: tuple[Content, ...]
    notes: tuple[str, ...]


class _PositionedCall(NamedTuple):
    turn: int
    position: int
    call: FunctionCall


def repair_history(contents: Iterable[Content], *, prefill: bool) -> RepairedHistory:
    """The repaired conversation. `prefill`: the model accepts a model turn at the end and continues it."""
    turns = _merge_neighbours(_clean(contents))
    if _is_valid(turns, prefill=prefill):
        return RepairedHistory(tuple(turns), ())
    pairing = _CallPairing(turns)
    turns = _merge_neighbours(pairing.repaired_turns())
    notes = pairing.notes
    if not turns or turns[0].role != USER:
        turns.insert(0, _continue_turn())
        notes.append("history.began_without_user")
    if turns[-1].role != USER and not prefill:
        turns.append(_continue_turn())
        notes.append("history.ended_with_model")
    return RepairedHistory(tuple(turns), tuple(notes))


def _is_valid(turns: Sequence[Content], *, prefill: bool) -> bool:
    """Whether no repair is needed. Nearly all histories are valid, and this check is faster than a repair."""
    if not turns or turns[0].role != USER or (turns[-1].role != USER and not prefill):
        return False
    due: list[tuple[str, str | None]] = []
    for turn in turns:
        answered = 0
        for position, part in enumerate(turn.parts):
            if isinstance(part.data, FunctionResponse):
                if position >= len(due) or due[position] != (part.data.name, part.data.id):
                    return False
                answered += 1
        if answered != len(due):
            return False
        due = [(call.name, call.id) for call in turn.calls()]
    return not due


def _continue_turn() -> Content:
    return Content(USER, (Part(NUDGE),))


def _clean(contents: Iterable[Content]) -> Iterator[Content]:
    for content in contents:
        if _is_clean(content):
            yield content
            continue
        parts = (part for part in content.parts if not is_blank(part))
        for role, group in groupby(parts, key=lambda part: _correct_role(part, content)):
            yield Content(role, tuple(group), content.extra)


def _is_clean(content: Content) -> bool:
    """Whether the content has no blank part and each part has the correct role, as nearly all contents do."""
    role = content.role
    if (role != USER and role != MODEL) or not content.parts:
        return False
    for part in content.parts:
        data = part.data
        if isinstance(data, FunctionCall):
            if role != MODEL:
                return False
        elif isinstance(data, FunctionResponse):
            if role != USER:
                return False
        elif is_blank(part):
            return False
    return True


def _correct_role(part: Part, content: Content) -> str:
    """Calls belong to the model and results to the user, in whichever message the client put them."""
    if isinstance(part.data, FunctionCall):
        return MODEL
    if isinstance(part.data, FunctionResponse):
        return USER
    return MODEL if content.role == MODEL else USER


def is_blank(part: Part) -> bool:
    """Whether the part says nothing: no data, or blank text, without a signature."""
    if part.data is not None and (not isinstance(part.data, str) or (part.data and not part.data.isspace())):
        return False
    return not part.signature and not part.extra


def _merge_neighbours(contents: Iterable[Content]) -> list[Content]:
    """Merge neighbours of one role into one turn. Parts stay separate: a signature belongs to its own
    part."""
    turns: list[list[Content]] = []
    for content in contents:
        if turns and turns[-1][0].role == content.role:
            turns[-1].append(content)
        else:
            turns.append([content])
    return [turn[0] if len(turn) == 1 else _join(turn) for turn in turns]


def _join(contents: list[Content]) -> Content:
    parts = tuple(part for content in contents for part in content.parts)
    extra = {key: value for content in contents for key, value in content.extra.items()}
    return Content(contents[0].role, parts, extra or EMPTY)


class _PendingCalls:
    """Calls without a result, by id or name. Some clients reuse call ids in each turn, so a result belongs to
    the newest call."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, list[tuple[int, deque[_PositionedCall]]]] = defaultdict(list)

    def add(self, key: str, call: _PositionedCall) -> None:
        turns = self._waiting[key]
        if not turns or turns[-1][0] != call.turn:
            turns.append((call.turn, deque()))
        turns[-1][1].append(call)

    def take(self, key: str, answered: Container[tuple[int, int]]) -> _PositionedCall | None:
        turns = self._waiting[key]
        while turns:
            calls = turns[-1][1]
            while calls:
                call = calls.popleft()
                if (call.turn, call.position) not in answered:
                    return call
            turns.pop()
        return None


class _CallPairing:
    """Assigns each response to the call that it answers, in turns that alternate."""

    def __init__(self, turns: list[Content]) -> None:
        self.notes: list[str] = []
        self._turns = turns
        self._answers: dict[tuple[int, int], Part] = {}
        self._orphans: defaultdict[int, list[Part]] = defaultdict(list)
        self._by_id, self._without_id, self._by_name = _PendingCalls(), _PendingCalls(), _PendingCalls()
        for index, turn in enumerate(turns):
            for position, part in enumerate(turn.parts):
                if isinstance(part.data, FunctionCall):
                    self._add_call(_PositionedCall(index, position, part.data))
                elif isinstance(part.data, FunctionResponse):
                    self._add_response(index, part, part.data)

    def _add_call(self, call: _PositionedCall) -> None:
        self._by_name.add(call.call.name, call)
        if call.call.id:
            self._by_id.add(call.call.id, call)
        else:
            self._without_id.add(call.call.name, call)

    def _find_call(self, response: FunctionResponse) -> _PositionedCall | None:
        if not response.id:
            return self._by_name.take(response.name, self._answers)
        found = self._by_id.take(response.id, self._answers)
        return found or self._without_id.take(response.name, self._answers)

    def _add_response(self, turn: int, part: Part, response: FunctionResponse) -> None:
        call = self._find_call(response)
        if call is None:
            self._orphans[turn].append(part)
            self.notes.append("history.result_without_call")
            return
        if (response.name, response.id) != (call.call.name, call.call.id):
            part = replace(part, data=replace(response, name=call.call.name, id=call.call.id))
        self._answers[call.turn, call.position] = part
        if turn != call.turn + 1:
            self.notes.append("history.result_moved")

    def repaired_turns(self) -> Iterator[Content]:
        due: list[Part] = []  # the responses with which the next user turn must begin
        for index, turn in enumerate(self._turns):
            if turn.role == MODEL:
                made_up = [_call_for_stray(part) for part in self._orphans.pop(index + 1, ())]
                due = self._responses(index, turn) + [response for _, response in made_up]
                yield Content(MODEL, turn.parts + tuple(call for call, _ in made_up), turn.extra)
                continue
            # Only responses in the first turn are still orphans here: no model turn precedes them.
            if strays := self._orphans.pop(index, None):
                yield Content(MODEL, tuple(call for call, _ in map(_call_for_stray, strays)))
                due = [response for _, response in map(_call_for_stray, strays)]
            others = tuple(part for part in turn.parts if not isinstance(part.data, FunctionResponse))
            if due or others:
                yield Content(USER, (*due, *others), turn.extra)
            due = []
        if due:
            yield Content(USER, tuple(due))

    def _responses(self, index: int, turn: Content) -> list[Part]:
        responses = []
        for position, part in enumerate(turn.parts):
            if isinstance(part.data, FunctionCall):
                answer = self._answers.get((index, position))
                if answer is None:
                    self.notes.append("history.call_without_result")
                    answer = _missing_response(part.data)
                responses.append(answer)
        return responses


def _missing_response(call: FunctionCall) -> Part:
    return Part(FunctionResponse(call.name, {"error": NO_RESULT}, call.id))


def _call_for_stray(part: Part) -> tuple[Part, Part]:
    """A call for a response that has none, and the response under the name of that call."""
    response = part.data
    assert isinstance(response, FunctionResponse)
    name = response.name or "unknown_tool"
    return Part(FunctionCall(name, {}, response.id)), replace(part, data=replace(response, name=name))
