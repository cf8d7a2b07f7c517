"""The ledger: which usage counts towards the limits, shared by all workers.

A limit is checked and a request is booked in one step. The store receives the limits as data and decides with
`reached_limits`, so a database server can do the same in one statement.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from bridge.settings.limits import Limits
from bridge.state.rate_window import ReachedLimit, Spent, reached_limits
from bridge.state.store import Store

KEY = "key:"  #: the id of a key's subject begins with this


class LimitedSubject(NamedTuple):
    """A key, or all clients together, with the limits that apply to it."""

    id: str
    description: str  #: for messages; the ledger does not use it
    limits: Limits

    @property
    def is_key(self) -> bool:
        return self.id.startswith(KEY)


class UsageSnapshot(NamedTuple):
    """The usage of each subject at one moment, in the order in which they were given."""

    spent: Sequence[Spent]
    now: float  #: by the clock of the store
    parts: int = 0  #: not 0: counted on this machine alone, with limits divided by this number


class SubjectAtLimit(NamedTuple):
    subject: LimitedSubject
    limit: ReachedLimit


class Booking(NamedTuple):
    """An admitted request. The ledger that made it needs it again when the request ends."""

    subjects: tuple[LimitedSubject, ...]
    at: float
    request: str = ""  #: an id, for stores in which the end of a request may be recorded twice


class Decision(NamedTuple):
    before: UsageSnapshot  #: without this request
    reached: tuple[SubjectAtLimit, ...]  #: the limits that refuse the request
    booking: Booking | None  #: None if a limit refuses it


class Ledger(Store):
    @abstractmethod
    def enter(self, subjects: Sequence[LimitedSubject]) -> Decision:
        """Book a request, unless a limit is reached. The check and the booking are one atomic step."""

    @abstractmethod
    def leave(self, booking: Booking, tokens: int, cost: float, *, refused: bool = False) -> None:
        """Record that a booked request has ended, and its usage. A refused one does not count as a
        request."""

    @abstractmethod
    def look(self, subjects: Sequence[LimitedSubject]) -> UsageSnapshot:
        """The usage now. Nothing is booked."""


def shares(subjects: Sequence[LimitedSubject], parts: int) -> list[LimitedSubject]:
    """The subjects with the limits that apply to one of so many bridges; 0: all bridges together."""
    if not parts:
        return list(subjects)
    where = "on this bridge while its database is away"
    return [
        LimitedSubject(each.id, f"{each.description} {where}", each.limits.divided(parts))
        for each in subjects
    ]


def subjects_at_limit(
    subjects: Sequence[LimitedSubject], snapshot: UsageSnapshot
) -> tuple[SubjectAtLimit, ...]:
    return tuple(
        SubjectAtLimit(subject, limit)
        for subject, spent in zip(subjects, snapshot.spent, strict=True)
        for limit in reached_limits(subject.limits, spent, snapshot.now)
    )
