"""The event store: batches of events by position, each owner's own, limited in age and size."""

from __future__ import annotations

import pytest

from bridge.state.event_store import MOST_BATCHES, EventBatch


def batch(first: int, count: int, last: bool = False, size: int = 1) -> EventBatch:
    events = [b"event: e\ndata: %d%b\n\n" % (number, b" " * size) for number in range(first, first + count)]
    return EventBatch(first, count, b"".join(events), last)


@pytest.mark.parametrize("position", range(6))
def test_a_batch_returns_its_events_from_a_position_on(position):
    whole = batch(2, 3)
    expected = b"".join(batch(number, 1).data for number in range(max(position, 2), 5))
    assert whole.since(position) == expected


def test_batches_are_read_in_order_from_a_position_on(backend):
    store = backend.events()
    for each in (batch(0, 2), batch(2, 3), batch(5, 1)):
        store.append("me", "resp_1", each)
    other = backend.events()
    assert other.read("me", "resp_1", 0) == [batch(0, 2), batch(2, 3), batch(5, 1)]
    assert other.read("me", "resp_1", 3) == [batch(2, 3), batch(5, 1)]
    assert other.read("me", "resp_1", 6) == []


def test_the_last_batch_is_found_behind_the_last_position(backend):
    store = backend.events()
    store.append("me", "resp_1", batch(0, 2, last=True))
    for position in (0, 2, 99):
        assert store.read("me", "resp_1", position)[-1].last


def test_a_long_answer_is_read_in_parts(backend):
    store = backend.events()
    for number in range(MOST_BATCHES + 3):
        store.append("me", "resp_1", batch(number, 1))
    part = store.read("me", "resp_1", 0)
    assert len(part) == MOST_BATCHES
    assert [each.first for each in store.read("me", "resp_1", part[-1].end)] == [64, 65, 66]


def test_an_announced_answer_exists_before_its_first_event(backend):
    store = backend.events()
    assert not store.exists("me", "resp_1")
    store.append("me", "resp_1", batch(0, 0))
    assert store.exists("me", "resp_1")
    assert store.read("me", "resp_1", 0) == []
    store.append("me", "resp_1", batch(0, 2))
    assert store.read("me", "resp_1", 0) == [batch(0, 2)]


def test_events_belong_to_their_owner(backend):
    store = backend.events()
    store.append("me", "resp_1", batch(0, 2))
    assert not store.exists("you", "resp_1")
    assert store.read("you", "resp_1", 0) == []
    store.forget("you", "resp_1")
    assert store.exists("me", "resp_1")
    store.forget("me", "resp_1")
    assert not store.exists("me", "resp_1")


def test_all_events_of_an_answer_expire_together(backend, clock, monkeypatch):
    store = backend.events(clock, days=1)
    monkeypatch.setattr(type(store), "writes_between_tidying", 1)
    store.append("me", "resp_1", batch(0, 1))
    clock.now += 24 * 3600 - 1
    store.append("me", "resp_1", batch(1, 1))
    clock.now += 2
    store.append("me", "resp_2", batch(0, 1))
    assert len(store.read("me", "resp_1", 0)) == 2
    clock.now += 24 * 3600 - 1
    store.append("me", "resp_3", batch(0, 1))
    assert [store.exists("me", f"resp_{number}") for number in (1, 2, 3)] == [False, True, True]


def test_the_oldest_answers_lose_their_events_when_the_store_is_full(backend, clock, monkeypatch):
    store = backend.events(clock, megabytes=1)
    monkeypatch.setattr(type(store), "writes_between_tidying", 1)
    for number in range(4):
        clock.now += 1
        store.append("me", f"resp_{number}", batch(0, 1, size=200_000))
        store.append("me", f"resp_{number}", batch(1, 1, size=200_000))
    assert [store.exists("me", f"resp_{number}") for number in range(4)] == [False, False, True, True]
