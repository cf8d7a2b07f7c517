"""Memory for bodies is reserved before it is used, and released once."""

from __future__ import annotations

import pytest

from bridge.errors import RequestTooLarge, TooBusy
from bridge.server.memory import PER_BYTE, SMALL, MemoryBudget, MemoryReservation
from bridge.server.slots import Slots

MB = 1024 * 1024


@pytest.fixture
def memory() -> MemoryBudget:
    """A limit of 10 MB for all bodies."""
    return MemoryBudget(10 * PER_BYTE, 1)


def test_bytes_above_the_limit_are_refused_until_others_are_released(memory) -> None:
    first, second = MemoryReservation(memory), MemoryReservation(memory)
    first.add(6 * MB)
    with pytest.raises(TooBusy) as refused:
        second.add(6 * MB)
    assert refused.value.retry_after_seconds
    first.release()
    second.add(6 * MB)


def test_releasing_twice_has_no_further_effect(memory) -> None:
    first, second, third = MemoryReservation(memory), MemoryReservation(memory), MemoryReservation(memory)
    first.add(6 * MB)
    second.add(4 * MB)
    for _ in range(3):
        second.release()
    with pytest.raises(TooBusy):
        third.add(6 * MB)


def test_small_requests_are_not_counted_until_they_become_large(memory) -> None:
    large, small = MemoryReservation(memory), MemoryReservation(memory)
    large.add(10 * MB)
    small.add(SMALL)
    with pytest.raises(TooBusy):
        small.add(1)


def test_a_refused_addition_keeps_the_earlier_reservation(memory) -> None:
    first, second = MemoryReservation(memory), MemoryReservation(memory)
    first.add(3 * MB)
    second.add(6 * MB)
    with pytest.raises(TooBusy):
        second.add(2 * MB)
    second.release()
    first.add(7 * MB)


def test_a_body_too_large_for_an_idle_worker_is_not_retryable(memory) -> None:
    with pytest.raises(RequestTooLarge, match="larger than 10 MB together"):
        MemoryReservation(memory).add(11 * MB)


def test_the_largest_allowed_body_is_always_admitted_when_idle() -> None:
    MemoryReservation(MemoryBudget(1, 64)).add(64 * MB)


def test_a_released_slot_frees_its_memory_except_detached_memory(memory) -> None:
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


def test_releasing_a_wanted_slot_notifies_the_waiter_once(memory) -> None:
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
