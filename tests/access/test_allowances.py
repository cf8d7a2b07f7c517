"""What limits leave to a client, and the words of each limit."""

from __future__ import annotations

import pytest

from bridge.access.allowances import allowances, scarcest, words_of
from bridge.rate_limit_status import RateLimitStatus
from bridge.settings.limits import Limits
from bridge.state.rate_window import COUNTED_FOR, DAY, Second, Spent

NOON = 20_000 * DAY + DAY // 2


def test_the_remaining_count_includes_the_current_request() -> None:
    limits = Limits(requests_per_minute=10, tokens_per_minute=1000)
    spent = Spent((Second(NOON - 50, 3, 400), Second(NOON - 20, 1, 0)))
    assert list(allowances(limits, spent, NOON, 1)) == [
        RateLimitStatus("requests", 10, 5, COUNTED_FOR, NOON),
        RateLimitStatus("tokens", 1000, 600, 11, NOON),
    ]
    assert list(allowances(limits, spent, NOON, 0)) == [
        RateLimitStatus("requests", 10, 6, 41, NOON),
        RateLimitStatus("tokens", 1000, 600, 11, NOON),
    ]
    assert [each.reset for each in allowances(limits, Spent(), NOON, 0)] == [0, 0]


def test_an_overdrawn_limit_has_zero_remaining() -> None:
    (left,) = allowances(Limits(tokens_per_day=10), Spent(day_tokens=500), NOON, 1)
    assert (left.remaining, left.reset) == (0, DAY / 2)


def test_of_several_limits_the_scarcest_is_reported() -> None:
    many, few = RateLimitStatus("tokens", 100, 90, 1, NOON), RateLimitStatus("tokens", 1000, 20, 2, NOON)
    requests = RateLimitStatus("requests", 5, 5, 0, NOON)
    assert scarcest([many, requests, few]) == (few, requests)


@pytest.mark.parametrize(
    ("limits", "name", "words"),
    [
        (Limits(tokens_per_day=100), "tokens_per_day", "100 tokens per day"),
        (Limits(tokens_per_minute=1), "tokens_per_minute", "1 token per minute"),
        (Limits(cost_per_day=2.5), "cost_per_day", "a cost of 2.5 per day"),
        (Limits(streams=2), "streams", "2 answers at the same time"),
        (Limits(requests_per_minute=1), "requests_per_minute", "1 request per minute"),
    ],
)
def test_each_limit_has_its_words(limits: Limits, name: str, words: str) -> None:
    assert words_of(limits, name) == words
