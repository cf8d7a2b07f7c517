"""Cool-downs, learnt facts and failures: names that count until a point in time, in all workers."""

from __future__ import annotations

from bridge.state.learnt_facts import LIFETIME
from bridge.state.upstream_failures import KEPT, LastFailure

#: Another worker may take this long to see a new name.
SEEN_AFTER = 1.0


def test_a_cool_down_ends_by_itself(backend, clock) -> None:
    store = backend.cooldowns(clock)
    assert store.left("model") == 0
    store.rest("model", 30)
    assert store.left("model") == 30
    clock.now += 29
    assert store.left("model") == 1
    clock.now += 2
    assert store.left("model") == 0


def test_a_longer_cool_down_stays(backend, clock) -> None:
    store = backend.cooldowns(clock)
    store.rest("model", 30)
    store.rest("model", 5)
    assert store.left("model") == 30


def test_other_workers_see_a_cool_down_within_a_second(backend, clock) -> None:
    one, other = backend.cooldowns(clock), backend.cooldowns(clock)
    assert other.left("model") == 0
    one.rest("model", 30)
    clock.now += SEEN_AFTER
    assert other.left("model") == 29


def test_one_worker_learns_a_fact_and_all_know_it_for_a_day(backend, clock) -> None:
    one, other = backend.learnt_facts(clock), backend.learnt_facts(clock)
    assert not one.knows("gone model")
    assert [one.learn("gone model"), other.learn("gone model"), one.learn("gone model")] == [
        True,
        False,
        False,
    ]
    assert one.knows("gone model")
    assert not one.knows("gone other")
    clock.now += LIFETIME + SEEN_AFTER
    assert not one.knows("gone model")
    assert not other.knows("gone model")
    assert other.learn("gone model")


def test_the_last_failure_of_an_upstream_is_known_to_all_workers_for_a_week(backend, clock) -> None:
    one, other = backend.upstream_failures(clock), backend.upstream_failures(clock)
    assert one.last("vertex") is None
    one.failed("vertex", "overloaded")
    clock.now += 60
    other.failed("vertex", "timeout")
    other.failed("vertex-2", "malformed")
    clock.now += 5
    other.failed("vertex", "timeout")  # written already
    clock.now += SEEN_AFTER
    assert one.last("vertex") == LastFailure("timeout", 6)
    assert other.last("vertex-2") == LastFailure("malformed", 6)
    assert other.last("cellar") is None
    one.failed("vertex", "overloaded")
    assert one.last("vertex") == LastFailure("overloaded", 0)
    clock.now += KEPT + SEEN_AFTER
    assert one.last("vertex") is None
