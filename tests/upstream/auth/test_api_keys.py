from __future__ import annotations

import threading
from collections import Counter

from bridge.upstream.auth.api_keys import ApiKeyPool
from bridge.upstream.cooldowns import LocalCooldowns


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def ring(*keys: str, cooldown: float = 60) -> tuple[ApiKeyPool, Clock]:
    clock = Clock()
    return ApiKeyPool(keys, cooldown, LocalCooldowns(clock)), clock


def test_each_call_starts_with_the_next_key_in_turn() -> None:
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


def test_an_empty_key_list_yields_no_key() -> None:
    keys, _ = ring()
    assert keys.available() == []


def test_a_cooling_key_is_skipped_until_its_cooldown_ends() -> None:
    keys, clock = ring("a", "b")
    keys.rest("a", 5)
    assert keys.available() == ["b"]
    clock.now += 4.9
    assert keys.available() == ["b"]
    clock.now += 0.1
    assert sorted(keys.available()) == ["a", "b"]


def test_the_configured_cooldown_is_the_default() -> None:
    keys, clock = ring("a", "b", cooldown=30)
    keys.rest("a")
    clock.now += 29
    assert keys.available() == ["b"]
    clock.now += 1
    assert sorted(keys.available()) == ["a", "b"]


def test_a_cooldown_of_zero_seconds_has_no_effect() -> None:
    keys, _ = ring("a", "b")
    keys.rest("a", 0)
    assert sorted(keys.available()) == ["a", "b"]


def test_a_longer_running_cooldown_is_kept() -> None:
    keys, clock = ring("a", "b")
    keys.rest("a", 100)
    keys.rest("a", 1)
    clock.now += 50
    assert keys.available() == ["b"]


def test_when_all_keys_cool_down_only_the_first_to_recover_is_tried() -> None:
    keys, _ = ring("a", "b", "c")
    for key, seconds in (("a", 30), ("b", 10), ("c", 20)):
        keys.rest(key, seconds)
    assert keys.available() == ["b"]
    assert keys.available() == ["b"]


def test_the_available_keys_share_the_load_evenly() -> None:
    keys, _ = ring("a", "b", "c", "d")
    keys.rest("b")
    first = Counter(keys.available()[0] for _ in range(300))
    assert first == {"a": 100, "c": 100, "d": 100}


def test_threads_use_the_keys_evenly() -> None:
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


# --- conversations -----------------------------------------------------------------------------------


def test_a_conversation_keeps_its_key() -> None:
    keys, _ = ring("a", "b", "c")
    first = keys.available("m", "talk")
    assert sorted(first) == ["a", "b", "c"]
    assert all(keys.available("m", "talk") == first for _ in range(10))


def test_every_worker_and_every_start_ranks_the_keys_alike() -> None:
    """The ranking is independent of the configured order, and needs no communication."""
    one, _ = ring("a", "b", "c")
    other, _ = ring("c", "a", "b")
    talks = [f"talk {number}" for number in range(50)]
    assert [one.available("m", talk) for talk in talks] == [other.available("m", talk) for talk in talks]


def test_the_next_key_is_used_while_the_first_cools_down() -> None:
    keys, clock = ring("a", "b", "c")
    first, second, third = keys.available("m", "talk")
    keys.rest(first, 5, "m")
    assert keys.available("m", "talk") == [second, third]
    assert keys.available("another model", "talk") == [first, second, third]
    clock.now += 5
    assert keys.available("m", "talk") == [first, second, third]


def test_a_cooling_key_moves_only_its_own_conversations() -> None:
    keys, _ = ring("a", "b", "c", "d")
    talks = [f"talk {number}" for number in range(200)]
    before = {talk: keys.available("m", talk)[0] for talk in talks}
    keys.rest("b", 60)
    after = {talk: keys.available("m", talk)[0] for talk in talks}
    assert all(after[talk] == key for talk, key in before.items() if key != "b")
    moved = Counter(after[talk] for talk, key in before.items() if key == "b")
    assert set(moved) == {"a", "c", "d"}  # and not all to one key


def test_a_new_key_takes_its_share_of_conversations_only() -> None:
    three, _ = ring("a", "b", "c")
    four, _ = ring("a", "b", "c", "d")
    talks = [f"talk {number}" for number in range(1000)]
    moved = [talk for talk in talks if three.available("m", talk)[0] != four.available("m", talk)[0]]
    assert {four.available("m", talk)[0] for talk in moved} == {"d"}
    assert 190 <= len(moved) <= 310  # a quarter, give or take four deviations


def test_conversations_are_distributed_evenly() -> None:
    keys, _ = ring("a", "b", "c")
    taken = Counter(keys.available("m", f"talk {number}")[0] for number in range(1000))
    deviation = (1000 * 1 / 3 * 2 / 3) ** 0.5
    assert all(abs(number - 1000 / 3) < 4 * deviation for number in taken.values()), taken
    assert len(taken) == 3
