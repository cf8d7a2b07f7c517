"""Limits, of a key and of all clients together: asked before a request, told after it what it used.

A limit never fails a request that it should not: if what was spent cannot be read, everybody passes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from bridge.access.keys import Key
from bridge.access.rate_window import DAILY, Barrier, Spent, allowances, barriers, scarcest
from bridge.errors import LONGEST_RETRY_AFTER, BudgetSpent, LimitReached
from bridge.observe.record import Observer, Record
from bridge.rate_limit_status import RateLimitStatus
from bridge.settings.limits import Limits

#: What a request has cost, in the currency of the limits.
CostOf = Callable[[Record], float]

NOT_ENFORCED = "limits_not_enforced"


def free(_record: Record) -> float:
    return 0.0


class Subject(NamedTuple):
    """Whose limits these are."""

    id: str
    words: str
    limits: Limits

    @property
    def kind(self) -> str:
        """Where the administrator wrote the limits: with a key, or in the settings."""
        return "key" if self.id.startswith("key:") else "limits"


class LedgerUnusable(Exception):
    """What was spent cannot be read or written now."""


class Sight(NamedTuple):
    """What each subject had spent at a moment."""

    spent: Sequence[Spent]
    now: float


class Ledger(ABC):
    """What was spent, shared by all workers. Raises LedgerUnusable and nothing else."""

    @abstractmethod
    def enter(self, subjects: Sequence[Subject], passes: Callable[[Sight], bool]) -> Sight:
        """What was spent so far. If `passes` approves of it, the request is booked in the same moment, and no
        other can come between."""

    @abstractmethod
    def leave(
        self, subjects: Sequence[Subject], tokens: int, cost: float, refused_at: float | None = None
    ) -> None:
        """A request that was booked has ended. One that was refused after it had been booked at `refused_at`
        counts as no request."""

    @abstractmethod
    def look(self, subjects: Sequence[Subject]) -> Sight: ...


@dataclass(frozen=True, slots=True)
class Admission:
    allowances: tuple[RateLimitStatus, ...] = ()
    refusal: LimitReached | None = None
    if_refused: tuple[RateLimitStatus, ...] = ()  #: what is left if the request is refused for another reason
    settle: Observer | None = None  #: to be told how the request ended
    enforced: bool = True  #: false where the ledger could not be asked


class Limiter:
    def __init__(self, ledger: Ledger, total: Limits, cost_of: CostOf = free) -> None:
        self._ledger = ledger
        self._cost_of = cost_of
        self._total = [Subject("all", "all clients together", total)] if total.any else []

    def admit(self, key: Key | None) -> Admission:
        subjects = self._subjects(key)
        if not subjects:
            return Admission()
        try:
            sight = self._ledger.enter(subjects, lambda sight: not _reached(subjects, sight))
        except LedgerUnusable:
            return Admission(enforced=False)
        reached = _reached(subjects, sight)
        if reached:
            left = _left(subjects, sight, 0)
            return Admission(left, _refusal(reached, sight.now), left)
        settle = partial(self._settle, subjects, sight.now)
        return Admission(_left(subjects, sight, 1), None, _left(subjects, sight, 0), settle)

    def look(self, key: Key | None) -> tuple[RateLimitStatus, ...]:
        """What is left, for a request that counts for nothing."""
        subjects = self._subjects(key)
        try:
            return _left(subjects, self._ledger.look(subjects), 0) if subjects else ()
        except LedgerUnusable:
            return ()

    def spent(self, key: Key | None) -> LimitReached | None:
        """The refusal that a budget of this day would be, if it is spent."""
        subjects = self._subjects(key)
        if not any(subject.limits.has_budget for subject in subjects):
            return None
        try:
            sight = self._ledger.look(subjects)
        except LedgerUnusable:
            return None
        reached = [each for each in _reached(subjects, sight) if each[1].name in DAILY]
        return _refusal(reached, sight.now) if reached else None

    def on_cost(self, key: Key | None) -> bool:
        """Whether one of the limits is on cost."""
        return any(subject.limits.cost_per_day for subject in self._subjects(key))

    def _subjects(self, key: Key | None) -> list[Subject]:
        if key is None or not key.rules.limits.any:
            return self._total
        return [Subject(f"key:{key.id}", f"the key {key.name!r}", key.rules.limits), *self._total]

    def _settle(self, subjects: Sequence[Subject], booked_at: float, record: Record) -> None:
        tokens, cost = record.usage.total if record.usage else 0, 0.0
        try:
            cost = self._cost_of(record)
        finally:  # whatever a price table runs into, the request has ended
            self._leave(subjects, tokens, cost, booked_at, record)

    def _leave(
        self, subjects: Sequence[Subject], tokens: int, cost: float, booked_at: float, record: Record
    ) -> None:
        try:
            self._ledger.leave(subjects, tokens, cost, booked_at if record.refused else None)
        except LedgerUnusable:
            record.notes[NOT_ENFORCED] += 1


def _reached(subjects: Iterable[Subject], sight: Sight) -> list[tuple[Subject, Barrier]]:
    return [
        (subject, barrier)
        for subject, spent in zip(subjects, sight.spent, strict=True)
        for barrier in barriers(subject.limits, spent, sight.now)
    ]


def _left(subjects: Iterable[Subject], sight: Sight, entering: int) -> tuple[RateLimitStatus, ...]:
    return scarcest(
        allowance
        for subject, spent in zip(subjects, sight.spent, strict=True)
        for allowance in allowances(subject.limits, spent, sight.now, entering)
    )


def _refusal(reached: Sequence[tuple[Subject, Barrier]], now: float) -> LimitReached:
    """By the barrier that will stand longest: before it falls no request would pass."""
    subject, barrier = max(reached, key=lambda each: each[1].wait)
    kind = LimitReached if barrier.wait <= LONGEST_RETRY_AFTER else BudgetSpent
    rule = f"{subject.kind}.{barrier.name}"
    message = f"The limit of {barrier.words} for {subject.words} is reached; {_when(barrier.wait, now)}."
    return kind(message, retry_after=barrier.wait, rule=rule)


def _when(wait: float, now: float) -> str:
    if wait <= LONGEST_RETRY_AFTER:
        return f"try again in {math.ceil(wait)} s"
    return f"it is free again at {datetime.fromtimestamp(math.ceil(now + wait), UTC):%Y-%m-%d %H:%M} UTC"
