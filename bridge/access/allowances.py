"""What limits leave to a client, for the rate-limit headers, and the words of each limit for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bridge.rate_limit_status import RateLimitStatus
from bridge.settings.limits import Limits
from bridge.state.ledger import LimitedSubject, UsageSnapshot
from bridge.state.rate_window import (
    COUNTED_FOR,
    Spent,
    amount,
    requests_of,
    tokens_of,
    until_empty,
    until_midnight,
)

_WORDS: Mapping[str, Callable[[Limits], str]] = {
    "requests_per_minute": lambda limits: f"{_some(limits.requests_per_minute, 'request')} per minute",
    "tokens_per_minute": lambda limits: f"{_some(limits.tokens_per_minute, 'token')} per minute",
    "tokens_per_day": lambda limits: f"{_some(limits.tokens_per_day, 'token')} per day",
    "cost_per_day": lambda limits: f"a cost of {limits.cost_per_day:,.10g} per day",
    "streams": lambda limits: f"{_some(limits.streams, 'answer')} at the same time",
}


def words_of(limits: Limits, name: str) -> str:
    """One of the limits in words, with its amount."""
    return _WORDS[name](limits)


def allowances(limits: Limits, spent: Spent, now: float, entering: int) -> Iterator[RateLimitStatus]:
    """What is left after `entering` requests that are admitted now."""
    requests, tokens = requests_of(spent), tokens_of(spent)
    if limit := limits.requests_per_minute:
        reset = COUNTED_FOR if entering else until_empty(requests, now)
        yield RateLimitStatus("requests", limit, _left(limit, amount(requests) + entering), reset, now)
    if limit := limits.tokens_per_minute:
        yield RateLimitStatus("tokens", limit, _left(limit, amount(tokens)), until_empty(tokens, now), now)
    if limit := limits.tokens_per_day:
        yield RateLimitStatus("tokens", limit, _left(limit, spent.day_tokens), until_midnight(now), now)


class LimitUse(NamedTuple):
    """One limit, and how much of it is used."""

    name: str  #: as in the settings
    shared: bool  #: whether it applies to all clients together
    words: str
    limit: float
    used: float
    wait: float | None  #: seconds until all of it is free again; None: that depends on running answers

    @property
    def left(self) -> float:
        return max(0, self.limit - self.used)

    @property
    def share_used(self) -> float:
        """From 0 to 1."""
        return min(1.0, self.used / self.limit)


def limit_uses(subjects: Sequence[LimitedSubject], snapshot: UsageSnapshot) -> Iterator[LimitUse]:
    """Every limit of these subjects."""
    for subject, spent in zip(subjects, snapshot.spent, strict=True):
        for name, (used, wait) in _used(spent, snapshot.now).items():
            if limit := getattr(subject.limits, name):
                words = words_of(subject.limits, name)
                yield LimitUse(name, not subject.is_key, words, limit, used, wait)


def _used(spent: Spent, now: float) -> dict[str, tuple[float, float | None]]:
    """For each limit the amount that counts, and the seconds until it no longer does."""
    requests, tokens = requests_of(spent), tokens_of(spent)
    return {
        "requests_per_minute": (amount(requests), until_empty(requests, now)),
        "tokens_per_minute": (amount(tokens), until_empty(tokens, now)),
        "tokens_per_day": (spent.day_tokens, until_midnight(now)),
        "cost_per_day": (spent.day_cost, until_midnight(now)),
        "streams": (spent.running, None),
    }


def scarcest(everything: Iterable[RateLimitStatus]) -> tuple[RateLimitStatus, ...]:
    """For requests and for tokens, the limit with the smallest remainder."""
    found: dict[str, RateLimitStatus] = {}
    for each in everything:
        if each.unit not in found or each.remaining < found[each.unit].remaining:
            found[each.unit] = each
    return tuple(found.values())


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def _left(limit: int, spent: int) -> int:
    return max(0, limit - spent)
