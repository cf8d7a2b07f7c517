"""The arithmetic of limits: from what was spent to what is left, and how long to wait. No IO, no clock.

A minute slides: what was spent in a second counts until the sixty seconds after it are over, so no sixty
seconds ever see more than the limit. A day begins at midnight UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bridge.rate_limit_status import RateLimitStatus
from bridge.settings.limits import Limits

MINUTE = 60
DAY = 86400
#: A second's spending counts this long from the second's beginning.
LASTS = MINUTE + 1
DAILY = frozenset({"tokens_per_day", "cost_per_day"})
#: Nobody knows when an answer will end; a client that asks this often loses little and harms nobody.
WAIT_FOR_A_STREAM = 5.0


class Second(NamedTuple):
    start: int
    requests: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Spent:
    seconds: tuple[Second, ...] = ()  #: of the last minute, the oldest first
    day_tokens: int = 0
    day_cost: float = 0.0
    running: int = 0


class Barrier(NamedTuple):
    """A limit that is reached."""

    name: str  #: as in the settings
    words: str
    wait: float  #: seconds until it lets the next request pass


def day_of(now: float) -> int:
    return int(now // DAY)


def barriers(limits: Limits, spent: Spent, now: float) -> Iterator[Barrier]:
    until_midnight = (day_of(now) + 1) * DAY - now
    requests = [(second.start, second.requests) for second in spent.seconds]
    tokens = [(second.start, second.tokens) for second in spent.seconds]
    if _reached(limits.requests_per_minute, _sum(requests)):
        wait = _wait(requests, limits.requests_per_minute, now)
        yield Barrier(
            "requests_per_minute", f"{_some(limits.requests_per_minute, 'request')} per minute", wait
        )
    if _reached(limits.tokens_per_minute, _sum(tokens)):
        wait = _wait(tokens, limits.tokens_per_minute, now)
        yield Barrier("tokens_per_minute", f"{_some(limits.tokens_per_minute, 'token')} per minute", wait)
    if _reached(limits.tokens_per_day, spent.day_tokens):
        yield Barrier("tokens_per_day", f"{_some(limits.tokens_per_day, 'token')} per day", until_midnight)
    if _reached(limits.cost_per_day, spent.day_cost):
        yield Barrier("cost_per_day", f"a cost of {limits.cost_per_day:g} per day", until_midnight)
    if _reached(limits.streams, spent.running):
        yield Barrier("streams", f"{_some(limits.streams, 'answer')} at the same time", WAIT_FOR_A_STREAM)


def allowances(limits: Limits, spent: Spent, now: float, entering: int) -> Iterator[RateLimitStatus]:
    """What is left, with `entering` requests that are let in now."""
    requests = [(second.start, second.requests) for second in spent.seconds]
    tokens = [(second.start, second.tokens) for second in spent.seconds]
    if limit := limits.requests_per_minute:
        reset = LASTS if entering else _until_empty(requests, now)
        yield RateLimitStatus("requests", limit, _left(limit, _sum(requests) + entering), reset, now)
    if limit := limits.tokens_per_minute:
        yield RateLimitStatus("tokens", limit, _left(limit, _sum(tokens)), _until_empty(tokens, now), now)
    if limit := limits.tokens_per_day:
        reset = (day_of(now) + 1) * DAY - now
        yield RateLimitStatus("tokens", limit, _left(limit, spent.day_tokens), reset, now)


def scarcest(everything: Iterable[RateLimitStatus]) -> tuple[RateLimitStatus, ...]:
    """Of each thing that is counted, the limit that will be reached first."""
    found: dict[str, RateLimitStatus] = {}
    for each in everything:
        if each.unit not in found or each.remaining < found[each.unit].remaining:
            found[each.unit] = each
    return tuple(found.values())


def _reached(limit: float, spent: float) -> bool:
    return bool(limit) and spent >= limit


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _left(limit: int, spent: int) -> int:
    return max(0, limit - spent)


def _sum(amounts: Iterable[tuple[int, int]]) -> int:
    return sum(amount for _, amount in amounts)


def _wait(amounts: list[tuple[int, int]], limit: int, now: float) -> float:
    """Until enough of the oldest has left the window."""
    left = _sum(amounts)
    for start, amount in amounts:
        left -= amount
        if left < limit:
            return start + LASTS - now
    raise AssertionError("an empty window is below every limit")


def _until_empty(amounts: list[tuple[int, int]], now: float) -> float:
    return max((start + LASTS - now for start, amount in amounts if amount), default=0.0)
