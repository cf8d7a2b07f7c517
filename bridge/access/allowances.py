"""What limits leave to a client, for the rate-limit headers, and the words of each limit for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from bridge.rate_limit_status import RateLimitStatus
from bridge.settings.limits import Limits
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
    "cost_per_day": lambda limits: f"a cost of {limits.cost_per_day:g} per day",
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


def scarcest(everything: Iterable[RateLimitStatus]) -> tuple[RateLimitStatus, ...]:
    """For requests and for tokens, the limit with the smallest remainder."""
    found: dict[str, RateLimitStatus] = {}
    for each in everything:
        if each.unit not in found or each.remaining < found[each.unit].remaining:
            found[each.unit] = each
    return tuple(found.values())


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _left(limit: int, spent: int) -> int:
    return max(0, limit - spent)
