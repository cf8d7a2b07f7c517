"""Usage: a row for each request that was sent to a model, sums of each day, and counts of refusals.

Days are days in UTC. Rows are kept for weeks, sums for longer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from bridge.state.bridges import LateUsage
from bridge.state.store import Store

#: The limit of different refusals in one day. Clients choose model names, so refusals beyond the limit are
#: counted without the name.
MOST_REFUSALS = 1000

#: Sums of days can be grouped by these, and rows of single requests by all.
DAY_GROUPINGS = ("day", "key", "model", "protocol")
GROUPINGS = (*DAY_GROUPINGS, "client", "client-model", "error", "tier")


class UsageRow(NamedTuple):
    """One request. Values that are not known are empty."""

    at: float  #: when it ended
    key: str
    protocol: str
    client: str
    client_model: str
    model: str  #: the upstream's name
    input: int
    cached: int
    output: int
    reasoning: int
    cost: float | None
    seconds: float
    first_byte: float | None
    outcome: str
    error: str
    status: int
    id: str  #: by which a database server notices a row that arrives twice; files do not keep it
    tier: str = ""  #: the service tier that served the request
    from_cache: int = 0  #: 1: the request cache answered
    saved: float = 0.0  #: what that answer would have cost
    conversation: str = ""  #: a digest: bridge/gemini/conversation.py
    experiment: str = ""  #: of config/experiments.toml
    arm: str = ""
    assignment: str = ""  #: how the request came to its arm; see `Assignment`
    streamed: int = 0  #: 1: the answer was streamed, so `first_byte` is the time to its first event
    fallbacks: int = 0  #: how often another model than the first one was asked
    malformed: int = 0  #: how many malformed answers the model gave, also those that a retry replaced


class Assignment:
    """The values of `UsageRow.assignment`."""

    HASHED = ""  #: the hash of conversation or key
    INELIGIBLE = "ineligible"  #: some arm could not serve the request, so a report leaves its unit out
    CHOSEN = "chosen"  #: a tester's header
    SHADOW = "shadow"  #: a copy whose answer no client got


class ExperimentRequest(NamedTuple):
    """One request of an experiment, as a report needs it."""

    key: str
    conversation: str
    arm: str
    assignment: str
    input: int
    cached: int
    cost: float | None
    seconds: float
    first_byte: float | None  #: None too if the answer was not streamed
    failed: bool
    malformed: int
    fallbacks: int


class Refusal(NamedTuple):
    """The common values of requests that were refused on one day before a model was asked."""

    day: str
    key: str
    protocol: str
    rule: str  #: the administrator's rule that refused them, else the kind of the error
    model: str  #: the client's name of the model, if it is known


class UsageSums(NamedTuple):
    requests: int = 0
    failed: int = 0
    client_left: int = 0
    unpriced: int = 0  #: requests to models without a known price
    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    cost: float = 0.0
    from_cache: int = 0  #: answers of the request cache
    saved: float = 0.0  #: what they would have cost

    @property
    def cached_share(self) -> float | None:
        """The cached share of the prompts, from 0 to 1; None if there were no prompts."""
        prompt = self.input + self.cached
        return self.cached / prompt if prompt else None


class UsageGroup(NamedTuple):
    names: tuple[str, ...]
    sums: UsageSums


class RefusalSum(NamedTuple):
    key: str
    rule: str
    model: str
    requests: int


@dataclass(frozen=True, slots=True)
class UsageQuery:
    by: tuple[str, ...]  #: of GROUPINGS
    since: date  #: both days are included
    until: date
    key: str | None = None

    @property
    def needs_requests(self) -> bool:
        """Whether only the rows of single requests can answer it."""
        return not set(self.by) <= set(DAY_GROUPINGS)


class UsageStore(Store):
    def keep(self, row: UsageRow, late: LateUsage | None = None) -> bool:
        """Keep one row at once, where a killed process does not lose it, and with it the usage that is booked
        if the process dies before it tells the ledger. False if the store has no such place, or no space in
        it: then `write` takes the row."""
        return False

    def finish(self) -> None:
        """Try to write the kept rows, at the end of the process. Does not raise."""

    def waiting(self) -> int:
        """The number of kept rows that are not written yet. Does not raise."""
        return 0

    @property
    def dropped(self) -> int:
        """The number of kept rows that were dropped, because the database refuses their contents."""
        return 0

    @abstractmethod
    def write(self, rows: Sequence[UsageRow]) -> None: ...

    @abstractmethod
    def count_refusals(self, refusals: Mapping[Refusal, int]) -> None: ...

    @abstractmethod
    def tidy(self) -> bool:
        """Delete a small number of old rows; true if there are more to delete."""

    @abstractmethod
    def stored_bytes(self) -> int:
        """The size on disk; 0 if nothing was written yet."""

    @abstractmethod
    def sums(self, query: UsageQuery) -> list[UsageGroup]:
        """By day if the query groups by day, else the largest first. Reading does not wait for a writer."""

    @abstractmethod
    def refusals(self, query: UsageQuery) -> list[RefusalSum]:
        """In the query's days, of its key; the most frequent first."""

    @abstractmethod
    def experiment_requests(self, experiment: str, since: date, until: date) -> list[ExperimentRequest]:
        """The kept requests of an experiment, of both days and those between, in the order of their ends."""


def total(groups: Sequence[UsageGroup]) -> UsageSums:
    if not groups:
        return UsageSums()
    return UsageSums(*map(sum, zip(*(group.sums for group in groups), strict=True)))
