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


class Store(ABC):
    """Every method of a store raises StorageError, unless the method says otherwise."""

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the data is, in words for the operator. It contains no password."""

    @abstractmethod
    def check(self) -> StoreCheck:
        """Check that the data is whole, without changing it. Does not raise."""
