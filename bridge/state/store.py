"""What all stores have in common: a location for messages to the operator, and a check for the doctor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

#: Seconds without a sign of a database server after which a request no longer waits for it.
SERVING_PATIENCE = 0.25
#: The same for commands of the administrator and for work in the background.
PATIENT = 5.0


class StoreCheck(NamedTuple):
    """The state of one store's data on disk."""

    name: str
    exists: bool
    problem: str = ""
    remedy: str = ""


class StoreHealth(NamedTuple):
    """The connections of this process to a database server."""

    away: bool = False  #: calls fail without an attempt, until the server answers again
    used: int = 0  #: connections that calls use at the moment
    size: int = 0
    outages: int = 0  #: since the start of the process


class Store(ABC):
    """Every method of a store raises StorageError, unless the method says otherwise."""

    @property
    def away(self) -> bool:
        """Whether calls fail without an attempt at the moment, because an attempt failed."""
        return False

    def serve(self) -> None:  # noqa: B027 - most stores need no threads
        """Start the threads that the store needs in a process that serves clients."""

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the data is, in words for the operator. It contains no password."""

    @abstractmethod
    def check(self) -> StoreCheck:
        """Check that the data is whole, without changing it. Does not raise."""
