"""The records of agents' runs: JSON lines, the first of which says what the run is, the last how it ended."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from bridge.state.store import Store


class RunStarter(NamedTuple):
    """Who started a run."""

    key: str | None  #: the name of the key
    request_id: str


class RunLines(NamedTuple):
    """A run in a list."""

    run_id: str
    first: bytes
    last: bytes
    lines: int


class AgentRunStore(Store):
    """Runs expire with all their lines; in a full store the oldest runs are deleted first."""

    @abstractmethod
    def add(self, run_id: str, number: int, line: bytes) -> None:
        """Lines have the numbers 0, 1, 2, … A line replaces the one with the same number."""

    @abstractmethod
    def lines(self, run_id: str) -> list[bytes]:
        """All lines of a run, in order; none if there is no such run."""

    @abstractmethod
    def newest(self, most: int) -> list[RunLines]:
        """The runs that began last, the newest first."""
