"""The ledger of one machine, for the time in which its bridge does not reach the shared ledger."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridge.state.ledger import Ledger


class KnownDay(NamedTuple):
    """The usage of a subject on one day, as the shared ledger counts it."""

    subject: str
    day: int
    tokens: int
    cost: float

    def divided(self, parts: int) -> KnownDay:
        """The share of one of so many bridges."""
        return self._replace(tokens=self.tokens // parts, cost=self.cost / parts)


class LocalLedger(Ledger):
    @abstractmethod
    def remember(self, days: Sequence[KnownDay], *, at_least: bool) -> None:
        """Start from this usage. `at_least`: keep a larger amount, to which local requests were added."""

    @abstractmethod
    def count_running(self, subjects: Iterable[str], change: int) -> None:
        """Count answers of this process that the shared ledger admitted. Does not raise."""
