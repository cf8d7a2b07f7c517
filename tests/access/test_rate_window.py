"""The arithmetic of limits: no window exceeds its limit, and retry delays are exact."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.access.rate_window import (
    DAY,
    LASTS,
    MINUTE,
    Second,
    Spent,
    allowances,
    barriers,
    day_of,
    scarcest,
)
from bridge.rate_limit_status import RateLimitStatus
from bridge.settings.limits import Limits

NOON = 20_000 * DAY + DAY // 2


def seen(events: Sequence[tuple[float, int]], now: float) -> Spent:
    """Return the ledger's view of these events, which are request times with their tokens."""
    seconds: dict[int, Second] = {}
    for moment, tokens in events:
        if now - LASTS < int(moment) <= now:
            start, requests, before = seconds.get(int(moment), Second(int(moment), 0, 0))
            seconds[int(moment)] = Second(start, requests + 1, before + tokens)
    today = [tokens for moment, tokens in events if day_of(moment) == day_of(now)]
    return Spent(tuple(sorted(seconds.values())), sum(today))


gaps = st.lists(st.floats(min_value=0, max_value=45, allow_nan=False), max_size=60)


@given(gaps, st.integers(min_value=1, max_value=6))
def test_no_sliding_minute_exceeds_the_request_limit(pauses: list[float], limit: int) -> None:
    limits, now, admitted = Limits(requests_per_minute=limit), float(NOON), []
    for pause in pauses:
        now += pause
        if not list(barriers(limits, seen([(moment, 0) for moment in admitted], now), now)):
            admitted.append(now)
    for end in admitted:
        assert sum(end - MINUTE < moment <= end for moment in admitted) <= limit


@given(gaps, st.integers(min_value=1, max_value=6))
def test_the_retry_delay_is_exact_to_the_millisecond(pauses: list[float], limit: int) -> None:
    limits, now = Limits(requests_per_minute=limit), float(NOON)
    events: list[tuple[float, int]] = []
    for pause in pauses:
        now += pause
        barrier = next(barriers(limits, seen(events, now), now), None)
        if barrier is None:
            events.append((now, 0))
            continue
        assert 0 < barrier.wait <= LASTS
        opens = now + barrier.wait
        assert list(barriers(limits, seen(events, opens - 0.001), opens - 0.001))
        assert not list(barriers(limits, seen(events, opens + 0.001), opens + 0.001))


@given(st.lists(st.tuples(st.floats(0, 60), st.integers(0, 500)), max_size=30), st.integers(1, 1000))
def test_requests_pass_while_the_token_window_is_below_the_limit(
    used: list[tuple[float, int]], limit: int
) -> None:
    limits, now = Limits(tokens_per_minute=limit), NOON + 60.5
    events = [(NOON + offset, tokens) for offset, tokens in used]
    spent = seen(events, now)
    total = sum(second.tokens for second in spent.seconds)
    found = list(barriers(limits, spent, now))
    assert bool(found) == (total >= limit)
    for barrier in found:
        opens = now + barrier.wait
        left = sum(tokens for moment, tokens in events if int(moment) + LASTS > opens)
        assert left < limit
        before = sum(tokens for moment, tokens in events if int(moment) + LASTS > opens - 0.001)
        assert before >= limit


@pytest.mark.parametrize(
    ("limits", "spent", "words", "wait"),
    [
        (Limits(tokens_per_day=100), Spent(day_tokens=100), "100 tokens per day", DAY / 2),
        (Limits(cost_per_day=2.5), Spent(day_cost=2.5), "a cost of 2.5 per day", DAY / 2),
        (Limits(streams=2), Spent(running=2), "2 answers at the same time", 5),
        (Limits(requests_per_minute=1), Spent((Second(NOON - 10, 1, 0),)), "1 request per minute", 51),
    ],
)
def test_each_limit_has_its_message_and_retry_delay(
    limits: Limits, spent: Spent, words: str, wait: float
) -> None:
    (barrier,) = barriers(limits, spent, NOON)
    assert (barrier.words, barrier.wait) == (words, wait)


@pytest.mark.parametrize(
    ("limits", "spent"),
    [
        (Limits(), Spent((Second(NOON, 10**6, 10**9),), 10**9, 1e9, 10**6)),
        (Limits(tokens_per_day=100), Spent(day_tokens=99)),
        (Limits(cost_per_day=2.5), Spent(day_cost=2.49)),
        (Limits(streams=2), Spent(running=1)),
        (Limits(requests_per_minute=2), Spent((Second(NOON, 1, 0),))),
    ],
)
def test_below_a_limit_requests_pass(limits: Limits, spent: Spent) -> None:
    assert not list(barriers(limits, spent, NOON))


def test_the_remaining_count_includes_the_current_request() -> None:
    limits = Limits(requests_per_minute=10, tokens_per_minute=1000)
    spent = Spent((Second(NOON - 50, 3, 400), Second(NOON - 20, 1, 0)))
    assert list(allowances(limits, spent, NOON, 1)) == [
        RateLimitStatus("requests", 10, 5, LASTS, NOON),
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
