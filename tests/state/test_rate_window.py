"""The arithmetic of limits: no window exceeds its limit, and retry delays are exact."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.settings.limits import Limits
from bridge.state.rate_window import (
    COUNTED_FOR,
    DAY,
    MINUTE,
    Second,
    Spent,
    day_of,
    reached_limits,
)

NOON = 20_000 * DAY + DAY // 2


def seen(events: Sequence[tuple[float, int]], now: float) -> Spent:
    """Return the ledger's view of these events, which are request times with their tokens."""
    seconds: dict[int, Second] = {}
    for moment, tokens in events:
        if now - COUNTED_FOR < int(moment) <= now:
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
        if not list(reached_limits(limits, seen([(moment, 0) for moment in admitted], now), now)):
            admitted.append(now)
    for end in admitted:
        assert sum(end - MINUTE < moment <= end for moment in admitted) <= limit


@given(gaps, st.integers(min_value=1, max_value=6))
def test_the_retry_delay_is_exact_to_the_millisecond(pauses: list[float], limit: int) -> None:
    limits, now = Limits(requests_per_minute=limit), float(NOON)
    events: list[tuple[float, int]] = []
    for pause in pauses:
        now += pause
        reached = next(reached_limits(limits, seen(events, now), now), None)
        if reached is None:
            events.append((now, 0))
            continue
        assert 0 < reached.wait <= COUNTED_FOR
        opens = now + reached.wait
        assert list(reached_limits(limits, seen(events, opens - 0.001), opens - 0.001))
        assert not list(reached_limits(limits, seen(events, opens + 0.001), opens + 0.001))


@given(st.lists(st.tuples(st.floats(0, 60), st.integers(0, 500)), max_size=30), st.integers(1, 1000))
def test_requests_pass_while_the_token_window_is_below_the_limit(
    used: list[tuple[float, int]], limit: int
) -> None:
    limits, now = Limits(tokens_per_minute=limit), NOON + 60.5
    events = [(NOON + offset, tokens) for offset, tokens in used]
    spent = seen(events, now)
    total = sum(second.tokens for second in spent.seconds)
    found = list(reached_limits(limits, spent, now))
    assert bool(found) == (total >= limit)
    for reached in found:
        opens = now + reached.wait
        left = sum(tokens for moment, tokens in events if int(moment) + COUNTED_FOR > opens)
        assert left < limit
        before = sum(tokens for moment, tokens in events if int(moment) + COUNTED_FOR > opens - 0.001)
        assert before >= limit


@pytest.mark.parametrize(
    ("limits", "spent", "name", "wait"),
    [
        (Limits(tokens_per_day=100), Spent(day_tokens=100), "tokens_per_day", DAY / 2),
        (Limits(cost_per_day=2.5), Spent(day_cost=2.5), "cost_per_day", DAY / 2),
        (Limits(streams=2), Spent(running=2), "streams", 5),
        (Limits(requests_per_minute=1), Spent((Second(NOON - 10, 1, 0),)), "requests_per_minute", 51),
    ],
)
def test_each_limit_has_its_name_and_its_wait(limits: Limits, spent: Spent, name: str, wait: float) -> None:
    (reached,) = reached_limits(limits, spent, NOON)
    assert reached == (name, wait)


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
    assert not list(reached_limits(limits, spent, NOON))
