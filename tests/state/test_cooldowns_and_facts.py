"""Cool-downs and learnt facts: names that count until a point in time, in all workers."""

from __future__ import annotations

from bridge.state.learnt_facts import LIFETIME

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
