"""Each worker keeps to a core of its own, as far as there are enough of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import pytest
from gunicorn_bridge import Bridge, gunicorn_bridge
from waiting import eventually

from bridge.cores import core_beside, stay_on

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no word for it")


@pytest.mark.parametrize(
    ("taken", "free"),
    [
        ((), {2, 3, 5}),
        ((2,), {3, 5}),
        ((2, 5), {3}),
        ((2, 3, 5), {2, 3, 5}),
        ((2, 2, 3, 5), {3, 5}),
        ((0, None, 3, 5), {2}),  # one from before the cores were fewer, and one that has none
    ],
)
def test_a_core_that_the_fewest_have_is_chosen_by_chance(
    monkeypatch: pytest.MonkeyPatch, taken: Sequence[int | None], free: set[int]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5})
    assert {core_beside(iter(taken)) for _ in range(200)} == free


def test_where_there_is_no_word_for_it_no_core_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert core_beside(()) is None
    stay_on(None)


def test_where_it_is_forbidden_a_worker_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbidden)
    stay_on(0)


def cores(bridge: Bridge) -> list[frozenset[int]]:
    """Those of each worker, with all its threads."""
    return [
        frozenset().union(*(os.sched_getaffinity(int(each)) for each in os.listdir(f"/proc/{worker}/task")))
        for worker in bridge.workers()
    ]


def apart(bridge: Bridge) -> bool:
    try:
        found = cores(bridge)
    except (FileNotFoundError, ProcessLookupError):  # a worker or a thread ended meanwhile
        return False
    alone = len(os.sched_getaffinity(0)) == 1
    return len(found) == 2 and all(len(each) == 1 for each in found) and (alone or len(set(found)) == 2)


def test_workers_are_on_cores_of_their_own_also_when_one_took_anothers_place() -> None:
    with gunicorn_bridge() as bridge:
        assert eventually(lambda: apart(bridge)), "each makes its way there when it starts"
        for _ in range(3):
            killed = bridge.workers()[0]
            os.kill(killed, signal.SIGKILL)
            assert eventually(lambda killed=killed: killed not in bridge.workers() and apart(bridge))
