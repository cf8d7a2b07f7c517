"""The ledger: it decides and books in one step, for all workers together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bridge.settings.limits import Limits
from bridge.state.ledger import LimitedSubject
from bridge.state.rate_window import COUNTED_FOR, Second


def subject(name: str = "key:alice", **limits: float) -> LimitedSubject:
    return LimitedSubject(name, "", Limits(**limits))


def test_a_request_is_booked_unless_a_limit_is_reached(backend, clock) -> None:
    ledger, alice = backend.ledger(clock), subject(requests_per_minute=2)
    first, second, third = (ledger.enter([alice]) for _ in range(3))
    assert [each.booking is not None for each in (first, second, third)] == [True, True, False]
    assert first.before.spent[0].seconds == ()
    assert third.before.spent[0].seconds == (Second(int(clock.now), 2, 0),)
    assert (first.reached, second.reached) == ((), ())
    (reached,) = third.reached
    assert (reached.subject, reached.limit) == (alice, ("requests_per_minute", COUNTED_FOR))
    assert first.before.now == clock.now


def test_what_one_subject_is_refused_is_booked_for_no_other(backend, clock) -> None:
    ledger = backend.ledger(clock)
    alice, together = subject(requests_per_minute=9), subject("all", streams=1)
    assert ledger.enter([alice, together]).booking
    refused = ledger.enter([alice, together])
    assert [each.subject for each in refused.reached] == [together]
    (spent, running) = ledger.look([alice, together]).spent
    assert sum(second.requests for second in spent.seconds) == 1
    assert running.running == 1


def test_the_end_of_a_request_adds_its_usage_and_frees_its_place(backend, clock) -> None:
    ledger, alice = backend.ledger(clock), subject(tokens_per_day=100, cost_per_day=5, streams=3)
    booking = ledger.enter([alice]).booking
    ledger.leave(booking, 70, 1.5)
    (spent,) = ledger.look([alice]).spent
    assert (spent.day_tokens, spent.day_cost, spent.running) == (70, 1.5, 0)
    assert sum(second.tokens for second in spent.seconds) == 70


@pytest.mark.parametrize(("refused", "left"), [(True, 0), (False, 1)])
def test_a_refused_request_does_not_count(backend, clock, refused: bool, left: int) -> None:
    ledger, alice = backend.ledger(clock), subject(requests_per_minute=2)
    booking = ledger.enter([alice]).booking
    clock.now += 5
    ledger.leave(booking, 0, 0.0, refused=refused)
    assert sum(second.requests for second in ledger.look([alice]).spent[0].seconds) == left


def test_workers_see_the_usage_of_one_another(backend, clock) -> None:
    one, other, alice = backend.ledger(clock), backend.ledger(clock), subject(streams=1, tokens_per_minute=9)
    booking = one.enter([alice]).booking
    assert [each.limit.name for each in other.enter([alice]).reached] == ["streams"]
    one.leave(booking, 9, 0.0)
    assert [each.limit.name for each in other.enter([alice]).reached] == ["tokens_per_minute"]


def test_usage_leaves_the_minute_and_the_day(backend, clock) -> None:
    ledger, alice = backend.ledger(clock), subject(tokens_per_minute=9, tokens_per_day=99)
    ledger.leave(ledger.enter([alice]).booking, 9, 0.0)
    clock.now += COUNTED_FOR
    (spent,) = ledger.look([alice]).spent
    assert (spent.seconds, spent.day_tokens) == ((), 9)
    clock.now += 86400
    assert ledger.look([alice]).spent[0].day_tokens == 0


def test_looking_books_nothing(backend, clock) -> None:
    ledger, alice = backend.ledger(clock), subject(requests_per_minute=1, streams=1)
    assert ledger.look([alice]) == ledger.look([alice])
    assert ledger.enter([alice]).booking


def test_concurrent_requests_never_exceed_a_limit(backend, clock) -> None:
    ledgers, alice = [backend.ledger(clock) for _ in range(2)], subject(requests_per_minute=25)
    with ThreadPoolExecutor(8) as pool:
        booked = list(pool.map(lambda number: ledgers[number % 2].enter([alice]).booking, range(60)))
    assert sum(booking is not None for booking in booked) == 25
