"""Limits of several bridges: exact counts, ends that count once, leases of running answers."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pgbouncer import needs_pgbouncer

from bridge.settings.limits import Limits
from bridge.state.ledger import LimitedSubject, subjects_at_limit
from bridge.state.postgres.database import Database
from bridge.state.postgres.ledger import PostgresLedger
from tests.state.conftest import PostgresBackend

LIMIT = 100
#: 50 threads in one process, each with several requests; the output is the number of admitted ones.
BRIDGE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from bridge.settings.limits import Limits
from bridge.state.errors import StorageUnavailable
from bridge.state.ledger import LimitedSubject
from bridge.state.postgres.database import Database
from bridge.state.postgres.ledger import PostgresLedger

ledger = PostgresLedger(Database(sys.argv[1], patience=20), lambda: 1_900_000_000.5)
limits = Limits(**{sys.argv[2]: int(sys.argv[3])})
subjects = [LimitedSubject(name, "", limits) for name in sys.argv[4:]]

def enter(_number):
    while True:
        try:
            return ledger.enter(subjects).booking is not None
        except StorageUnavailable:  # a busy machine: nothing is booked
            pass

sys.stdin.readline()
with ThreadPoolExecutor(50) as pool:
    print(sum(pool.map(enter, range(100))))
"""


def subject(name: str = "key:alice", **limits: float) -> LimitedSubject:
    return LimitedSubject(name, "", Limits(**limits))


@pytest.mark.parametrize("limit", ["requests_per_minute", "streams"])
@pytest.mark.parametrize("way", ["postgres", pytest.param("through_pgbouncer", marks=needs_pgbouncer)])
def test_four_bridges_with_fifty_threads_admit_exactly_the_limit(
    request: pytest.FixtureRequest, way: str, limit: str
) -> None:
    postgres: PostgresBackend = request.getfixturevalue(way)
    subjects = (["alice", "all"], ["all", "alice"], ["all", "bob"], ["bob", "all"])
    command = [sys.executable, "-c", BRIDGE, postgres.url, limit, str(LIMIT)]
    bridges = [
        subprocess.Popen([*command, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for names in subjects
    ]
    for bridge in bridges:
        assert bridge.stdin is not None
        bridge.stdin.write("go\n")
        bridge.stdin.flush()
    admitted = [int(bridge.communicate(timeout=100)[0]) for bridge in bridges]
    assert sum(admitted) == LIMIT


def test_an_end_that_is_recorded_twice_counts_once(postgres, clock) -> None:
    ledger = postgres.ledger(clock)
    alice = subject(requests_per_minute=9, tokens_per_day=99, streams=3)
    kept, refused = ledger.enter([alice]).booking, ledger.enter([alice]).booking
    for _ in range(3):
        ledger.leave(kept, 10, 0.5)
        postgres.ledger(clock).leave(refused, 0, 0.0, refused=True)
    (spent,) = ledger.look([alice]).spent
    assert (spent.day_tokens, spent.day_cost, spent.running) == (10, 0.5, 0)
    assert sum(second.requests for second in spent.seconds) == 1


def test_the_answers_of_a_killed_worker_count_until_their_leases_end(postgres, clock) -> None:
    dead, alive, alice = postgres.ledger(clock), postgres.ledger(clock), subject(streams=3)
    dead.enter([alice])
    running = alive.enter([alice]).booking
    for _ in range(3):
        clock.now += 4
        alive.renew()
    assert alive.look([alice]).spent[0].running == 1
    alive.leave(running, 0, 0.0)
    alive.renew()
    assert alive.look([alice]).spent[0].running == 0


def test_leases_are_made_again_after_a_crash_of_the_server(postgres, clock) -> None:
    ledger, alice = postgres.ledger(clock), subject(streams=3)
    for _ in range(2):
        ledger.enter([alice])
    Database(postgres.url).run("TRUNCATE gemini_bridge.running")  # what a crash does to an UNLOGGED table
    assert ledger.look([alice]).spent[0].running == 0
    ledger.renew()
    assert ledger.look([alice]).spent[0].running == 2


def test_without_a_given_clock_the_clock_of_the_server_counts(postgres) -> None:
    ledger = PostgresLedger(postgres.database())
    ((now,),) = postgres.database().run("SELECT extract(epoch FROM clock_timestamp())::float8")
    assert 0 <= ledger.look([subject(streams=1)]).now - now < 60


limits = st.builds(
    Limits,
    requests_per_minute=st.integers(0, 4),
    tokens_per_minute=st.integers(0, 40),
    tokens_per_day=st.integers(0, 80),
    cost_per_day=st.sampled_from([0.0, 0.3, 0.7]),
    streams=st.integers(0, 3),
)
#: Seconds until a request begins, its tokens, its cost, and whether it ends at once.
requests = st.lists(
    st.tuples(st.floats(0, 45), st.integers(0, 20), st.sampled_from([0.0, 0.1, 0.2]), st.booleans()),
    max_size=12,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limits, limits, requests, st.uuids().map(str))
def test_the_server_decides_as_the_arithmetic_of_limits_does(
    postgres, clock, of_alice: Limits, of_all: Limits, sequence, example: str
) -> None:
    ledger = postgres.ledger(clock)
    subjects = [
        LimitedSubject(f"{name}{example}", "", each) for name, each in (("a", of_alice), ("b", of_all))
    ]
    for pause, tokens, cost, ends in sequence:
        clock.now += pause
        expected = subjects_at_limit(subjects, ledger.look(subjects))
        decision = ledger.enter(subjects)
        assert decision.reached == expected
        assert (decision.booking is None) == bool(expected)
        if decision.booking is not None and ends:
            ledger.leave(decision.booking, tokens, cost)
