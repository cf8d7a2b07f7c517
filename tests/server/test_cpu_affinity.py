"""Each worker runs on its own CPU core if there are enough cores."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Sequence

import pytest
from gunicorn_bridge import Bridge, gunicorn_bridge
from waiting import eventually

from bridge.server.cpu_affinity import choose_core, pin_to_core

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no word for it")


@pytest.mark.parametrize(
    ("taken", "staying", "free"),
    [
        ((), 1, {2, 3, 5}),
        ((2,), 1, {3, 5}),
        ((2, 5), 2, {3}),
        ((2, 3, 5), 3, {2, 3, 5}),
        ((2, 2, 3, 5), 4, {3, 5}),
        ((0, None, 3, 5), 3, {2}),  # a worker on a core that no longer exists, and one without a core
        ((2, 3), 1, {5}),
        ((2, 3, 5), 1, {2, 3}),  # in a reload: the old workers on cores 2 and 3 will end
        ((2, 2, 2), 0, {3, 5}),
    ],
)
def test_the_least_used_core_is_chosen_at_random(
    monkeypatch: pytest.MonkeyPatch, taken: Sequence[int | None], staying: int, free: set[int]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5})
    assert {choose_core(taken, staying) for _ in range(200)} == free


@pytest.mark.parametrize(("workers", "cores"), [(1, 1), (2, 2), (2, 3), (3, 4), (4, 6), (6, 8), (5, 2)])
def test_after_a_reload_the_cores_stay_evenly_used(
    monkeypatch: pytest.MonkeyPatch, workers: int, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    for _ in range(50):
        living = [random.randrange(cores) for _ in range(workers)]  # any distribution
        for _ in range(workers):
            living.append(choose_core(living, workers - 1))
        counts = Counter(living[workers:])
        assert max(counts.values()) - min(counts[core] for core in range(cores)) <= 1


def test_without_sched_getaffinity_no_core_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert choose_core((), 1) is None
    pin_to_core(None)


def test_a_worker_continues_when_setting_affinity_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbidden)
    pin_to_core(0)


def cores(bridge: Bridge) -> list[frozenset[int]]:
    """Return the cores of each worker, with all its threads."""
    return [
        frozenset().union(*(os.sched_getaffinity(int(each)) for each in os.listdir(f"/proc/{worker}/task")))
        for worker in bridge.workers()
    ]


def apart(bridge: Bridge) -> bool:
    try:
        found = cores(bridge)
    except (FileNotFoundError, ProcessLookupError):  # a worker or a thread ended in the meantime
        return False
    alone = len(os.sched_getaffinity(0)) == 1
    return len(found) == 2 and all(len(each) == 1 for each in found) and (alone or len(set(found)) == 2)


def test_workers_have_separate_cores_also_after_a_replacement() -> None:
    with gunicorn_bridge() as bridge:
        assert eventually(lambda: apart(bridge)), "each makes its way there when it starts"
        for _ in range(3):
            killed = bridge.workers()[0]
            os.kill(killed, signal.SIGKILL)
            assert eventually(lambda killed=killed: killed not in bridge.workers() and apart(bridge))


def test_cpu_affinity_can_be_switched_off() -> None:
    with gunicorn_bridge(BRIDGE_SERVER__OWN_CORE="false") as bridge:
        assert set(cores(bridge)) == {frozenset(os.sched_getaffinity(0))}


def test_a_reload_keeps_workers_on_separate_cores() -> None:
    with gunicorn_bridge() as bridge:
        for _ in range(3):
            old = set(bridge.workers())
            bridge.signal(signal.SIGHUP)
            assert eventually(lambda old=old: not old & set(bridge.workers()) and apart(bridge))
