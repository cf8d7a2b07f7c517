"""The pool and its breaker, with a real server that is paused, killed and started again."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from postgres_server import PASSWORD, PostgresServer, postgres_server
from waiting import eventually

from bridge.settings.limits import Limits
from bridge.state.errors import StorageError, StorageUnavailable
from bridge.state.ledger import LimitedSubject
from bridge.state.postgres import connection
from bridge.state.postgres.connection import connection_options
from bridge.state.postgres.database import MOST_CONNECTIONS, Database
from bridge.state.postgres.ledger import PostgresLedger
from bridge.state.store import SERVING_PATIENCE

#: A busy machine may wake a thread late.
SLACK = 0.5


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that no other module uses: these tests stop it."""
    with postgres_server() as running:
        yield running


@pytest.fixture
def database(own_server: PostgresServer) -> Database:
    found = Database(own_server.url())
    assert eventually(lambda: answers(found))
    return found


def answers(database: Database) -> bool:
    try:
        return database.run("SELECT 1") == [(1,)]
    except StorageUnavailable:
        return False


def seconds_of(call: Callable[[], object]) -> float:
    start = time.monotonic()
    with pytest.raises(StorageUnavailable):
        call()
    return time.monotonic() - start


def test_a_paused_server_delays_each_thread_once(own_server: PostgresServer, database: Database) -> None:
    with own_server.paused():
        with ThreadPoolExecutor(20) as pool:
            waits = list(pool.map(lambda _: seconds_of(lambda: database.run("SELECT 1")), range(20)))
        assert SERVING_PATIENCE / 2 < max(waits) < SERVING_PATIENCE + SLACK
        assert not database.working
        later = [seconds_of(lambda: database.run("SELECT 1")) for _ in range(20)]
        assert sorted(later)[10] < 0.01
    assert eventually(lambda: answers(database))


def test_a_patient_statement_does_not_hide_that_the_server_is_silent(
    own_server: PostgresServer, database: Database
) -> None:
    with ThreadPoolExecutor(1) as background:
        patient = background.submit(database.run, "SELECT pg_sleep(0.3)", patience=5.0)
        assert eventually(lambda: database.health().used == 1)
        with own_server.paused():
            waits = [seconds_of(lambda: database.run("SELECT 1")) for _ in range(5)]
            assert max(waits) < SERVING_PATIENCE + SLACK
            assert sorted(waits)[3] < 0.01, "only the first call waits"
        with suppress(StorageUnavailable):
            patient.result(30)
    assert eventually(lambda: answers(database))


def test_a_busy_server_that_answers_is_not_taken_for_silent(
    own_server: PostgresServer, database: Database
) -> None:
    database.patience = 0.1
    with ThreadPoolExecutor(MOST_CONNECTIONS + 1) as pool:
        chatting = "SELECT repeat('x', 100000), pg_sleep(0.02) FROM generate_series(1, 25)"
        busy = [pool.submit(database.run, chatting, patience=5.0) for _ in range(MOST_CONNECTIONS)]
        assert eventually(lambda: database.health().used == MOST_CONNECTIONS)
        assert database.run("SELECT 1") == [(1,)]
        assert [len(each.result(30)) for each in busy] == [25] * MOST_CONNECTIONS
    assert database.health().outages == 0


def test_a_server_that_was_killed_is_used_again_after_its_start(
    own_server: PostgresServer, database: Database
) -> None:
    own_server.kill()
    waits = [seconds_of(lambda: database.run("SELECT 1")) for _ in range(5)]
    assert max(waits) < SLACK
    own_server.start()
    assert eventually(lambda: answers(database))


def test_the_first_call_after_a_restart_succeeds(
    own_server: PostgresServer, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.patience = 5.0  # the machine of the tests may be busy
    own_server.stop()
    own_server.start()
    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(lambda _: answers(database), range(10))) == [True] * 10
    assert not caplog.records
    assert database.health().outages == 0


def test_a_server_that_is_away_at_first_is_found_later(own_server: PostgresServer) -> None:
    own_server.stop()
    database = Database(own_server.url())
    assert seconds_of(lambda: database.run("SELECT 1")) < SERVING_PATIENCE + SLACK
    own_server.start()
    assert eventually(lambda: answers(database))


def test_a_listener_that_never_answers_delays_the_first_calls_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        database = Database(f"postgresql://bridge@127.0.0.1:{listener.getsockname()[1]}/db")
        with ThreadPoolExecutor(10) as pool:
            waits = list(pool.map(lambda _: seconds_of(lambda: database.run("SELECT 1")), range(10)))
        assert max(waits) < SERVING_PATIENCE + SLACK
        assert seconds_of(lambda: database.run("SELECT 1")) < SLACK / 2
        database.close()


def test_a_request_waits_for_its_turn(own_server: PostgresServer, postgres) -> None:
    """A limit that is counted without the others would admit too many."""
    database, holder = Database(postgres.url), Database(postgres.url, patience=5)
    alice = [LimitedSubject("key:alice", "", Limits(streams=1))]
    assert eventually(lambda: answers(database))
    locked = threading.Event()

    def hold(held) -> None:
        held.execute("SELECT pg_advisory_xact_lock(hashtextextended('key:alice', 41242))")
        locked.set()
        time.sleep(0.5)  # longer than the lock timeout

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(holder.transaction, hold)
        locked.wait(30)
        assert PostgresLedger(database).enter(alice).booking
        holding.result(30)


def test_a_lock_that_is_held_fails_one_call_and_not_the_database(
    own_server: PostgresServer, postgres
) -> None:
    database, holder = Database(postgres.url), Database(postgres.url, patience=5)
    alice = [LimitedSubject("key:alice", "", Limits(streams=1))]
    assert eventually(lambda: answers(database))
    locked, done = threading.Event(), threading.Event()

    def hold(held) -> None:
        held.execute("SELECT pg_advisory_xact_lock(hashtextextended('key:alice', 41242))")
        locked.set()
        done.wait(30)

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(holder.transaction, hold)
        locked.wait(30)
        with pytest.raises(StorageUnavailable, match="lock timeout"):
            PostgresLedger(database).enter(alice)
        assert database.working
        done.set()
        holding.result(30)
    assert PostgresLedger(database).enter(alice).booking


def test_the_pool_is_small_and_threads_wait_for_each_other(own_server: PostgresServer) -> None:
    database = Database(f"{own_server.url()}?application_name=one%20pool", patience=10)
    with ThreadPoolExecutor(40) as pool:
        list(pool.map(lambda _: database.run("SELECT pg_sleep(0.01)"), range(80)))
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'one pool'"
    with own_server.connection() as observer:
        assert observer.execute(query).fetchone() == (MOST_CONNECTIONS,)
    database.close()


def test_a_child_process_makes_its_own_pool(database: Database) -> None:
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, b"yes" if eventually(lambda: answers(database)) else b"no")
        os._exit(0)
    assert os.read(reading, 3) == b"yes"
    os.waitpid(child, 0)
    assert answers(database)


def test_a_closed_database_leaves_no_thread(own_server: PostgresServer) -> None:
    before = set(threading.enumerate())
    database = Database(own_server.url())
    assert eventually(lambda: answers(database))
    database.close()
    assert eventually(lambda: set(threading.enumerate()) <= before)


def test_an_answer_of_many_megabytes_may_take_longer_than_the_patience(own_server: PostgresServer) -> None:
    database = Database(own_server.url(), patience=0.5)
    assert eventually(lambda: answers(database))
    query = "SELECT repeat('x', 1000000), pg_sleep(0.2) FROM generate_series(1, 5)"
    assert len(database.run(query)) == 5


def test_a_proxy_that_takes_no_limits_gets_none(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PgBouncer without `ignore_startup_parameters = options` answers so."""
    connect, seen = connection.Connection.connect, []

    def bouncer(**options):
        seen.append(options.get("options"))
        if options.get("options"):
            raise connection.psycopg.OperationalError("FATAL: unsupported startup parameter: options")
        return connect(**options)

    monkeypatch.setattr(connection.Connection, "connect", bouncer)
    made, options = connection.connect(own_server.url())
    made.close()
    assert "options" not in options
    assert "statement_timeout" in seen[0]


def test_nothing_is_kept_in_a_session(own_server: PostgresServer) -> None:
    options = connection_options(own_server.url())
    assert options["prepare_threshold"] is None
    assert options["autocommit"] is True


def test_no_message_contains_the_password(own_server: PostgresServer) -> None:
    for url in (own_server.url("missing"), own_server.url().replace("@", "%zz@"), own_server.url(user="x")):
        database = Database(url)
        with pytest.raises(StorageError) as caught:
            database.run("SELECT 1")
        assert PASSWORD not in f"{caught.value} {caught.value.reason} {caught.value.__cause__}"
