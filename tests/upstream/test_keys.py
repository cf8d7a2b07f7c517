from __future__ import annotations

import threading
from collections import Counter

from bridge.cooldowns import LocalCooldowns
from bridge.upstream.keys import KeyRing


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def ring(*keys: str, cooldown: float = 60) -> tuple[KeyRing, Clock]:
    clock = Clock()
    return KeyRing(keys, cooldown, LocalCooldowns(clock)), clock


def test_each_call_starts_with_the_next_key() -> None:
    keys, _ = ring("a", "b", "c")
    assert [keys.available() for _ in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_a_key_given_twice_counts_once() -> None:
    keys, _ = ring("a", "b", "a")
    assert keys.available() == ["a", "b"]


def test_no_keys_give_none_to_try() -> None:
    keys, _ = ring()
    assert keys.available() == []


def test_a_resting_key_is_left_out_until_it_wakes() -> None:
    keys, clock = ring("a", "b")
    keys.rest("a", 5)
    assert keys.available() == ["b"]
    clock.now += 4.9
    assert keys.available() == ["b"]
    clock.now += 0.1
    assert sorted(keys.available()) == ["a", "b"]


def test_the_cooldown_is_the_usual_rest() -> None:
    keys, clock = ring("a", "b", cooldown=30)
    keys.rest("a")
    clock.now += 29
    assert keys.available() == ["b"]
    clock.now += 1
    assert sorted(keys.available()) == ["a", "b"]


def test_a_rest_of_no_time_is_none() -> None:
    keys, _ = ring("a", "b")
    keys.rest("a", 0)
    assert sorted(keys.available()) == ["a", "b"]


def test_a_longer_rest_under_way_is_kept() -> None:
    keys, clock = ring("a", "b")
    keys.rest("a", 100)
    keys.rest("a", 1)
    clock.now += 50
    assert keys.available() == ["b"]


def test_when_all_rest_the_first_to_wake_is_tried_alone() -> None:
    keys, _ = ring("a", "b", "c")
    for key, seconds in (("a", 30), ("b", 10), ("c", 20)):
        keys.rest(key, seconds)
    assert keys.available() == ["b"]
    assert keys.available() == ["b"]


def test_the_keys_still_awake_share_the_load_evenly() -> None:
    keys, _ = ring("a", "b", "c", "d")
    keys.rest("b")
    first = Counter(keys.available()[0] for _ in range(300))
    assert first == {"a": 100, "c": 100, "d": 100}


def test_threads_get_even_turns() -> None:
    keys, _ = ring("a", "b", "c", "d")
    taken: list[str] = []

    def take() -> None:
        taken.extend(keys.available()[0] for _ in range(500))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(Counter(taken).values()) == {500}
