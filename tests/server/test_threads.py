"""A worker's threads: as many as needed, no more than allowed, and none leaked."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest
from waiting import eventually

from bridge.server.threads import Threads


@pytest.fixture
def threads():
    made: list[Threads] = []

    def make(most: int) -> Threads:
        made.append(Threads(most))
        return made[-1]

    yield make
    for each in made:
        each.shutdown()
    assert eventually(lambda: not ours(), every=0.005), "the next test counts its own"


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("answers-")]


def test_an_idle_thread_is_used_before_another_is_started(threads):
    pool, names = threads(5), SimpleQueue()
    for _ in range(4):
        pool.run(lambda done: done.put(threading.current_thread().name), names)
        names.get(timeout=30)
        assert eventually(lambda: len(pool._free) == 1, every=0.005)
    assert len(ours()) == 1


def test_excess_tasks_wait_for_a_thread(threads):
    pool, release, begun, done = threads(2), threading.Event(), SimpleQueue(), SimpleQueue()

    def task(number: int) -> None:
        begun.put(number)
        release.wait(30)
        done.put(number)

    for number in range(5):
        pool.run(task, number)
    assert {begun.get(timeout=30), begun.get(timeout=30)} == {0, 1}
    assert begun.empty()
    assert len(ours()) == 2
    release.set()
    assert sorted(done.get(timeout=30) for _ in range(5)) == [0, 1, 2, 3, 4]


def test_all_submitted_tasks_finish_before_the_threads_end(threads):
    pool, done = threads(3), SimpleQueue()
    for number in range(50):
        pool.run(done.put, number)
    pool.shutdown()
    assert eventually(lambda: not ours(), every=0.005)
    assert sorted(done.get_nowait() for _ in range(50)) == list(range(50))


def test_an_idle_thread_keeps_no_reference_to_its_last_task(threads):
    class Large:
        def __del__(self) -> None:
            gone.set()

    pool, gone = threads(1), threading.Event()
    pool.run(lambda _large: None, Large())
    assert gone.wait(30)


def test_a_task_that_raises_does_not_end_its_thread(threads, caplog):
    pool, done = threads(1), SimpleQueue()
    pool.run(int, "no number")
    pool.run(done.put, "the next")
    assert done.get(timeout=30) == "the next"
    assert "a task failed with an exception" in caplog.text


def test_existing_threads_run_all_tasks_when_no_more_can_start(threads, monkeypatch):
    def no_room(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, release, done = threads(3), threading.Event(), SimpleQueue()
    pool.run(lambda _: release.wait(30), None)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", no_room)
        pool.run(done.put, 1)
    release.set()
    assert done.get(timeout=30) == 1
    pool.run(done.put, 2)
    assert done.get(timeout=30) == 2


def test_an_error_is_raised_when_no_thread_can_start(threads, monkeypatch):
    def no_room(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_room)
    with pytest.raises(RuntimeError):
        threads(3).run(print, "never")
