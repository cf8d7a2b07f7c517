"""Flights: recordings of single requests. Also the rules that say what to record, and who looked at flights.

A flight expires after some days, and the oldest flights are deleted when the store is full. The list of looks
has no end: nothing deletes its rows.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from bridge.state.store import Store

#: Seconds for which a rule can be valid.
LONGEST_RULE = 24 * 3600.0
MOST_LISTED = 1000


class FlightRow(NamedTuple):
    """What the index says about a flight. `bytes` is the size of its compressed data."""

    id: str
    at: float  #: seconds since 1970
    request: str  #: the id of the request; a client may have used it more than once
    key: str
    client: str
    conversation: str
    protocol: str
    model: str
    status: int
    outcome: str
    error: str
    level: str
    reason: str  #: why the flight was kept
    node: str
    bytes: int


@dataclass(frozen=True, slots=True)
class FlightQuery:
    """Which flights to list: those that have all of the given properties."""

    key: str | None = None
    model: str | None = None
    conversation: str | None = None
    failed: bool = False
    limit: int = 50


class FlightRule(NamedTuple):
    """Requests that have all of the given properties are recorded until the rule ends."""

    id: str
    made: float
    ends: float
    key: str | None
    session: str | None
    model: str | None
    header: bool  #: only requests that ask for it with the header x-bridge-record: 1
    level: str
    author: str  #: the user who made the rule


class Look(NamedTuple):
    """Somebody looked at a flight."""

    at: float
    author: str
    command: str
    flight: str


class FlightStore(Store):
    @abstractmethod
    def keep(self, row: FlightRow, data: bytes) -> None: ...

    @abstractmethod
    def newest(self, query: FlightQuery) -> list[FlightRow]:
        """The newest first."""

    @abstractmethod
    def find(self, name: str) -> tuple[FlightRow, bytes] | None:
        """The flight with this id, or else the newest flight of the request with this id."""

    @abstractmethod
    def before(self, row: FlightRow) -> tuple[FlightRow, bytes] | None:
        """The newest flight of the same conversation, key and level before this one."""

    @abstractmethod
    def tidy(self) -> None:
        """Delete what has expired, and the oldest flights beyond the limit."""

    @abstractmethod
    def add_rule(self, rule: FlightRule) -> None: ...

    @abstractmethod
    def rules(self) -> list[FlightRule]:
        """The rules that have not ended, the oldest first."""

    @abstractmethod
    def end_rule(self, rule_id: str) -> bool:
        """False if there is no such rule, or if it has ended."""

    @abstractmethod
    def note_look(self, look: Look) -> None: ...

    @abstractmethod
    def looks(self, limit: int = MOST_LISTED) -> list[Look]:
        """The newest first."""
