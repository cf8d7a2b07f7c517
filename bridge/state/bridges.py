"""The bridges that share a database, and what each of them admitted while it did not reach the database."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from bridge.state.ledger import Booking
from bridge.state.store import Store, StoreHealth


class LateUsage(NamedTuple):
    """The usage of a request that ended while the database was away."""

    request: str  #: the id of the booking
    subjects: Sequence[str]  #: those with a limit on tokens or cost
    tokens: int
    cost: float
    at: float  #: when the request ended


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
