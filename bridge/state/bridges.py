"""The bridges that share a database, and what each of them admitted while it did not reach the database."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from bridge.state.ledger import Booking
from bridge.state.store import Store, StoreHealth


class LateUsage(NamedTuple):
    """The usage of a request, for the case that its end did not reach the ledger in the database."""

    request: str  #: the id of the booking
    subjects: Sequence[str]  #: those with a limit on tokens or cost
    tokens: int
    cost: float
    at: float  #: when the request ended


def late_usage(booking: Booking, tokens: int, cost: float) -> LateUsage | None:
    """None if there is nothing to book, or the ledger of this booking has no database."""
    counting = [each.id for each in booking.subjects if each.limits.counts_tokens]
    if not (booking.request and counting and (tokens or cost)):
        return None
    return LateUsage(booking.request, counting, tokens, cost, time.time())


class Bridges(Store):
    @abstractmethod
    def health(self) -> StoreHealth: ...

    @abstractmethod
    def beat(self) -> int:
        """Record that this bridge is alive. Returns the number of bridges that are."""

    @abstractmethod
    def book(self, late: Sequence[LateUsage]) -> None:
        """Add the usage to the days in which the requests ended. A booking that was settled before, here or
        by the ledger, does not count again."""

    @abstractmethod
    def hold(self, booking: Booking) -> None:
        """Count a running answer that was admitted without the database, from the database's return on. Does
        not raise."""
