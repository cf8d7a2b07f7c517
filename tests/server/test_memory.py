"""Bytes are booked before they are held, and released once."""

from __future__ import annotations

import pytest

from bridge.errors import RequestTooLarge, TooBusy
from bridge.server.memory import PER_BYTE, SMALL, MemoryBudget, MemoryReservation
from bridge.server.slots import Slots

MB = 1024 * 1024


@pytest.fixture
def memory() -> MemoryBudget:
    """For bodies of 10 MB together."""
    return MemoryBudget(10 * PER_BYTE, 1)


def test_what_is_too_much_is_refused_until_something_is_released(memory) -> None:
    first, second = MemoryReservation(memory), MemoryReservation(memory)
    first.add(6 * MB)
    with pytest.raises(TooBusy) as refused:
        second.add(6 * MB)
    assert refused.value.retry_after_seconds
    first.release()
    second.add(6 * MB)


def test_a_release_counts_once(memory) -> None:
    first, second, third = MemoryReservation(memory), MemoryReservation(memory), MemoryReservation(memory)
    first.add(6 * MB)
    second.add(4 * MB)
    for _ in range(3):
        second.release()
    with pytest.raises(TooBusy):
        third.add(6 * MB)


def test_small_requests_are_not_counted_until_they_grow(memory) -> None:
    large, small = MemoryReservation(memory), MemoryReservation(memory)
    large.add(10 * MB)
    small.add(SMALL)
    with pytest.raises(TooBusy):
        small.add(1)


def test_a_refused_part_leaves_what_was_booked_before(memory) -> None:
    first, second = MemoryReservation(memory), MemoryReservation(memory)
    first.add(3 * MB)
    second.add(6 * MB)
    with pytest.raises(TooBusy):
        second.add(2 * MB)
    second.release()
    first.add(7 * MB)


def test_what_an_idle_worker_could_not_hold_is_not_worth_repeating(memory) -> None:
    with pytest.raises(RequestTooLarge, match="larger than 10 MB together"):
        MemoryReservation(memory).add(11 * MB)


def test_the_largest_body_is_possible_however_little_is_allowed() -> None:
    MemoryReservation(MemoryBudget(1, 64)).add(64 * MB)


def test_a_place_gives_its_bytes_back_too_but_not_those_of_work_that_goes_on(memory) -> None:
    slots = Slots(16, memory)
    slot, other = slots.take(), MemoryReservation(memory)
    slot.memory.add(6 * MB)
    detached = slot.detach_memory()
    slot.release()
    with pytest.raises(TooBusy):
        other.add(6 * MB)
    detached.release()
    with slots.take() as second:
        second.memory.add(6 * MB)
    other = MemoryReservation(memory)
    other.add(10 * MB)


def test_a_place_that_is_wanted_is_told_of(memory) -> None:
    slots, told = Slots(9, memory), []
    slots.on_free = lambda: told.append(slots.free)
    slot = slots.take()
    assert slots.reserve() is None
    with pytest.raises(TooBusy):
        slots.take()
    slots.notify_when_free = True
    slot.release()
    slot.release()
    assert told == [True]
