"""Bytes are booked before they are held, and released once."""

from __future__ import annotations

import pytest

from bridge.errors import RequestTooLarge, TooBusy
from bridge.server.memory import PER_BYTE, SMALL, Booking, Memory
from bridge.server.slots import Places

MB = 1024 * 1024


@pytest.fixture
def memory() -> Memory:
    """For bodies of 10 MB together."""
    return Memory(10 * PER_BYTE, 1)


def test_what_is_too_much_is_refused_until_something_is_released(memory) -> None:
    first, second = Booking(memory), Booking(memory)
    first.add(6 * MB)
    with pytest.raises(TooBusy) as refused:
        second.add(6 * MB)
    assert refused.value.retry_after_seconds
    first.release()
    second.add(6 * MB)


def test_a_release_counts_once(memory) -> None:
    first, second, third = Booking(memory), Booking(memory), Booking(memory)
    first.add(6 * MB)
    second.add(4 * MB)
    for _ in range(3):
        second.release()
    with pytest.raises(TooBusy):
        third.add(6 * MB)


def test_small_requests_are_not_counted_until_they_grow(memory) -> None:
    large, small = Booking(memory), Booking(memory)
    large.add(10 * MB)
    small.add(SMALL)
    with pytest.raises(TooBusy):
        small.add(1)


def test_a_refused_part_leaves_what_was_booked_before(memory) -> None:
    first, second = Booking(memory), Booking(memory)
    first.add(3 * MB)
    second.add(6 * MB)
    with pytest.raises(TooBusy):
        second.add(2 * MB)
    second.release()
    first.add(7 * MB)


def test_what_an_idle_worker_could_not_hold_is_not_worth_repeating(memory) -> None:
    with pytest.raises(RequestTooLarge, match="more than 10 MB together"):
        Booking(memory).add(11 * MB)


def test_the_largest_body_is_possible_however_little_is_allowed() -> None:
    Booking(Memory(1, 64)).add(64 * MB)


def test_a_place_gives_its_bytes_back_too_but_not_those_of_work_that_goes_on(memory) -> None:
    places = Places(16, memory)
    place, other = places.take(), Booking(memory)
    place.memory.add(6 * MB)
    done = place.memory.release
    place.give_back_without_memory()
    place.give_back()
    with pytest.raises(TooBusy):
        other.add(6 * MB)
    done()
    with places.take() as second:
        second.memory.add(6 * MB)
    other = Booking(memory)
    other.add(10 * MB)


def test_a_place_that_is_wanted_is_told_of(memory) -> None:
    places, told = Places(9, memory), []
    places.tell = lambda: told.append(places.free)
    place = places.take()
    assert places.reserve() is None
    with pytest.raises(TooBusy):
        places.take()
    places.wanted = True
    place.give_back()
    place.give_back()
    assert told == [True]
