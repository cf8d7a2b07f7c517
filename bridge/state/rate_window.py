"""The arithmetic of limits: from recorded usage to reached limits and waiting times. No IO, no clock.

A minute is a sliding window: usage recorded in one second counts until sixty seconds after that second have
passed. So no period of sixty seconds exceeds the limit. A day begins at midnight UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bridge.settings.limits import Limits

MINUTE = 60
DAY = 86400
#: The usage of one second counts for this long, from the beginning of that second.
COUNTED_FOR = MINUTE + 1
DAILY = frozenset({"tokens_per_day", "cost_per_day"})
#: Nobody knows when a running answer will end. Clients that retry in this interval cause little load.
WAIT_FOR_A_STREAM = 5.0


class Second(NamedTuple):
    start: int
    requests: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Spent:
    """The recorded usage of one subject that counts towards its limits."""

    seconds: tuple[Second, ...] = ()  #: of the last minute, the oldest first
    day_tokens: int = 0
    day_cost: float = 0.0
    running: int = 0  #: answers


class ReachedLimit(NamedTuple):
    name: str  #: as in the settings
    wait: float  #: seconds until the limit admits the next request


def day_of(now: float) -> int:
    return int(now // DAY)


def until_midnight(now: float) -> float:
    return (day_of(now) + 1) * DAY - now


def reached_limits(limits: Limits, spent: Spent, now: float) -> Iterator[ReachedLimit]:
    requests, tokens = requests_of(spent), tokens_of(spent)
    if _is_reached(limits.requests_per_minute, amount(requests)):
        yield ReachedLimit("requests_per_minute", _wait(requests, limits.requests_per_minute, now))
    if _is_reached(limits.tokens_per_minute, amount(tokens)):
        yield ReachedLimit("tokens_per_minute", _wait(tokens, limits.tokens_per_minute, now))
    if _is_reached(limits.tokens_per_day, spent.day_tokens):
        yield ReachedLimit("tokens_per_day", until_midnight(now))
    if _is_reached(limits.cost_per_day, spent.day_cost):
        yield ReachedLimit("cost_per_day", until_midnight(now))
    if _is_reached(limits.streams, spent.running):
        yield ReachedLimit("streams", WAIT_FOR_A_STREAM)


#: Amounts with the second in which each was recorded, the oldest first.
Amounts = list[tuple[int, int]]


def requests_of(spent: Spent) -> Amounts:
    return [(second.start, second.requests) for second in spent.seconds]


def tokens_of(spent: Spent) -> Amounts:
    return [(second.start, second.tokens) for second in spent.seconds]


def amount(amounts: Iterable[tuple[int, int]]) -> int:
    return sum(number for _, number in amounts)


def until_empty(amounts: Amounts, now: float) -> float:
    """Seconds until nothing of this counts any more."""
    return max((start + COUNTED_FOR - now for start, number in amounts if number), default=0.0)


def _is_reached(limit: float, spent: float) -> bool:
    return bool(limit) and spent >= limit


def _wait(amounts: Amounts, limit: int, now: float) -> float:
    """Seconds until enough of the oldest amounts no longer counts."""
    left = amount(amounts)
    for start, number in amounts:
        left -= number
        if left < limit:
            return start + COUNTED_FOR - now
    raise AssertionError("an empty window is below every limit")
