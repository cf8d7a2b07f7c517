"""Limits of a key, and of all clients together. They are checked before a request, and its usage is recorded
when it ends.

If the ledger cannot be read, limits are not enforced: a failure of the bridge must not refuse requests. While
a shared database is away, its ledger enforces the share of this bridge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from bridge.access.allowances import allowances, scarcest, words_of
from bridge.errors import LONGEST_RETRY_AFTER, BudgetSpent, LimitReached
from bridge.observe.record import Observer, Record
from bridge.rate_limit_status import RateLimitStatus
from bridge.settings.limits import Limits
from bridge.state.bridges import LateUsage, late_usage
from bridge.state.errors import StorageError
from bridge.state.key_store import Key
from bridge.state.ledger import (
    KEY,
    Booking,
    Ledger,
    LimitedSubject,
    SubjectAtLimit,
    UsageSnapshot,
    shares,
    subjects_at_limit,
)
from bridge.state.rate_window import DAILY

#: Returns the cost of a request, in the currency of the limits.
CostOf = Callable[[Record], float]

NOT_ENFORCED = "limits_not_enforced"
LOCAL = "limits_local"  #: the shares of this bridge were enforced, because the database is away


def free(_record: Record) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Admission:
    """The result of checking a request against its limits."""

    allowances: tuple[RateLimitStatus, ...] = ()
    refusal: LimitReached | None = None
    if_refused: tuple[RateLimitStatus, ...] = ()  #: what is left if the request is refused for another reason
    settle: Observer | None = None  #: to be called when the request has ended
    owed: Callable[[Record], LateUsage | None] | None = None  #: what `settle` will book
    note: str | None = None  #: for the record, if the limits are not enforced as usual


class Limiter:
    def __init__(self, ledger: Ledger, total: Limits, cost_of: CostOf = free) -> None:
        self._ledger = ledger
        self._cost_of = cost_of
        self._total = [LimitedSubject("all", "all clients together", total)] if total.any else []

    def admit(self, key: Key | None) -> Admission:
        subjects = self._subjects(key)
        if not subjects:
            return Admission()
        try:
            before, reached, booking = self._ledger.enter(subjects)
        except StorageError:
            return Admission(note=NOT_ENFORCED)
        left, note = _left(subjects, before, 0), LOCAL if before.parts else None
        if booking is None:
            return Admission(left, _refusal(reached, before.now), left, note=note)
        settle, owed = partial(self._settle, booking), partial(self._owed, booking)
        return Admission(_left(subjects, before, 1), None, left, settle, owed, note)

    def look(self, key: Key | None) -> tuple[RateLimitStatus, ...]:
        """What is left, for a request that does not count."""
        subjects = self._subjects(key)
        try:
            return _left(subjects, self._ledger.look(subjects), 0) if subjects else ()
        except StorageError:
            return ()

    def uses(self, key: Key | None) -> tuple[list[LimitedSubject], UsageSnapshot]:
        """The limits that apply to a key, and what counts towards them. Raises StorageError."""
        subjects = self._subjects(key)
        snapshot = self._ledger.look(subjects) if subjects else UsageSnapshot((), 0)
        return shares(subjects, snapshot.parts), snapshot

    def spent(self, key: Key | None) -> LimitReached | None:
        """The error of a request now if a budget of this day is used up, else None."""
        subjects = self._subjects(key)
        if not any(subject.limits.has_budget for subject in subjects):
            return None
        try:
            snapshot = self._ledger.look(subjects)
        except StorageError:
            return None
        applied = shares(subjects, snapshot.parts)
        reached = [each for each in subjects_at_limit(applied, snapshot) if each.limit.name in DAILY]
        return _refusal(reached, snapshot.now) if reached else None

    def on_cost(self, key: Key | None) -> bool:
        """Whether one of the limits is on cost."""
        return any(subject.limits.cost_per_day for subject in self._subjects(key))

    def _subjects(self, key: Key | None) -> list[LimitedSubject]:
        if key is None or not key.rules.limits.any:
            return self._total
        return [LimitedSubject(f"{KEY}{key.id}", f"the key {key.name!r}", key.rules.limits), *self._total]

    def _owed(self, booking: Booking, record: Record) -> LateUsage | None:
        return late_usage(booking, _tokens(record), self._cost_of(record))

    def _settle(self, booking: Booking, record: Record) -> None:
        tokens, cost = _tokens(record), 0.0
        try:
            cost = self._cost_of(record)
        finally:  # the request has ended, even if the price table raises an error
            self._leave(booking, tokens, cost, record)

    def _leave(self, booking: Booking, tokens: int, cost: float, record: Record) -> None:
        try:
            self._ledger.leave(booking, tokens, cost, refused=record.refused)
        except StorageError:
            record.notes[NOT_ENFORCED] += 1


def _tokens(record: Record) -> int:
    return record.usage.total if record.usage else 0


def _left(
    subjects: Sequence[LimitedSubject], snapshot: UsageSnapshot, entering: int
) -> tuple[RateLimitStatus, ...]:
    return scarcest(
        allowance
        for subject, spent in zip(shares(subjects, snapshot.parts), snapshot.spent, strict=True)
        for allowance in allowances(subject.limits, spent, snapshot.now, entering)
    )


def _refusal(reached: Sequence[SubjectAtLimit], now: float) -> LimitReached:
    """The error for the limit with the longest wait: until then no request is admitted."""
    subject, limit = max(reached, key=lambda each: each.limit.wait)
    kind = LimitReached if limit.wait <= LONGEST_RETRY_AFTER else BudgetSpent
    words = words_of(subject.limits, limit.name)
    message = f"The limit of {words} for {subject.description} is reached; {_when(limit.wait, now)}."
    return kind(message, retry_after=limit.wait, rule=f"{_section(subject)}.{limit.name}")


def _section(subject: LimitedSubject) -> str:
    """Where the administrator wrote the limits: with a key, or in the settings."""
    return "key" if subject.is_key else "limits"


def _when(wait: float, now: float) -> str:
    if wait <= LONGEST_RETRY_AFTER:
        return f"try again in {math.ceil(wait)} s"
    return f"it is free again at {datetime.fromtimestamp(math.ceil(now + wait), UTC):%Y-%m-%d %H:%M} UTC"
