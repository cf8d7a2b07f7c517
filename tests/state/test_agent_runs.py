"""The records of agents' runs: lines in order, the newest runs first, limited in age and size."""

from __future__ import annotations

from bridge.state.agent_run_store import RunLines


def test_lines_are_read_in_order_by_every_process(backend):
    store = backend.agent_runs()
    for number in (0, 2, 1):
        store.add("guide-1", number, b"line %d" % number)
    store.add("guide-2", 0, b"other")
    assert backend.agent_runs().lines("guide-1") == [b"line 0", b"line 1", b"line 2"]
    assert store.lines("guide-3") == []


def test_a_line_replaces_the_one_with_its_number(backend):
    store = backend.agent_runs()
    store.add("guide-1", 0, b"old")
    store.add("guide-1", 0, b"new")
    assert store.lines("guide-1") == [b"new"]


def test_the_newest_runs_come_first_with_their_first_and_last_line(backend, clock):
    store = backend.agent_runs(clock)
    for run in ("a", "b", "c"):
        clock.now += 1
        store.add(run, 0, b"first " + run.encode())
    clock.now += 1
    store.add("a", 1, b"last a")
    assert store.newest(2) == [
        RunLines("c", b"first c", b"first c", 1),
        RunLines("b", b"first b", b"first b", 1),
    ]
    assert store.newest(9)[-1] == RunLines("a", b"first a", b"last a", 2)


def test_a_run_expires_with_all_its_lines(backend, clock):
    store = backend.agent_runs(clock, days=1)
    for number in range(3):
        store.add("old", number, b"line")
    clock.now += 2 * 86400
    for number in range(store.writes_between_tidying):
        store.add("new", number, b"line")
    assert store.lines("old") == []
    assert len(store.lines("new")) == store.writes_between_tidying


def test_in_a_full_store_the_oldest_runs_are_deleted(backend, clock):
    store = backend.agent_runs(clock, megabytes=1)
    for run in range(store.writes_between_tidying):
        clock.now += 1
        store.add(f"run-{run}", 0, b"x" * 100_000)
    assert store.lines("run-0") == []
    assert store.lines(f"run-{store.writes_between_tidying - 1}") != []
