"""Rows that wait for the database: shared by the workers of a machine, limited, moved once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import pytest
from gunicorn_bridge import ROOT, clean_environment
from usage_rows import row
from waiting import eventually

from bridge.observe import usage_writer
from bridge.observe.usage_writer import UsageWriter
from bridge.settings.limits import Limits
from bridge.state.away.usage_store import WaitingUsageStore, move
from bridge.state.bridges import late_usage
from bridge.state.errors import DatabaseUnfit, StorageError, StorageUnavailable
from bridge.state.ledger import LimitedSubject
from bridge.state.postgres.bridges import PostgresBridges
from bridge.state.postgres.ledger import PostgresLedger
from bridge.state.sqlite.waiting_rows import TAKEN_FOR, SqliteWaitingRows
from bridge.state.usage_store import UsageQuery
from bridge.state.waiting_rows import WaitingRow


def waiting_rows(*ids: str) -> list[WaitingRow]:
    return [WaitingRow(each, [each, 1, None]) for each in ids]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "waiting.sqlite3"


@pytest.fixture
def two(path: Path, clock) -> tuple[SqliteWaitingRows, SqliteWaitingRows]:
    """Two workers."""
    return SqliteWaitingRows(path, now=clock), SqliteWaitingRows(path, now=clock)


def test_a_row_is_taken_by_one_worker(two) -> None:
    one, other = two
    for each in waiting_rows("a", "b", "a"):
        assert one.add(each)
    assert one.count() == 2, "an id is added once"
    assert [each.id for each in other.take(1)] == ["a"]
    assert one.take(9) == waiting_rows("b")
    assert other.take(9) == []


def test_rows_that_are_given_back_are_taken_again(two) -> None:
    one, other = two
    one.add(*waiting_rows("a"))
    one.give_back(one.take(9))
    assert other.take(9) == waiting_rows("a")


@pytest.mark.parametrize("later", [TAKEN_FOR + 1, -100])
def test_rows_of_a_killed_worker_are_taken_by_another(two, clock, later: float) -> None:
    one, other = two
    one.add(*waiting_rows("a"))
    one.take(9)
    clock.now += later
    assert other.take(9) == waiting_rows("a")


def test_a_full_file_takes_no_row(path: Path) -> None:
    rows = SqliteWaitingRows(path, most=2)
    assert [rows.add(each) for each in waiting_rows("a", "b", "c")] == [True, True, False]
    rows.remove(rows.take(1))
    assert rows.add(*waiting_rows("c"))


# --- moving ------------------------------------------------------------------------------------------


def failing(error: StorageError, bad: str) -> tuple[list[str], Callable[[Sequence[WaitingRow]], None]]:
    written: list[str] = []

    def write(rows: Sequence[WaitingRow]) -> None:
        if any(each.id == bad for each in rows):
            raise error
        written.extend(each.id for each in rows)

    return written, write


@pytest.mark.parametrize("error", [StorageUnavailable("away"), DatabaseUnfit("no tables")])
def test_rows_wait_while_the_database_is_away_or_unfit(path: Path, error: StorageError) -> None:
    rows = SqliteWaitingRows(path)
    for each in waiting_rows("a", "b"):
        rows.add(each)
    with pytest.raises(type(error)):
        move(rows, failing(error, "b")[1])
    assert len(rows.take(9)) == 2


def test_a_row_that_no_database_accepts_does_not_hold_up_the_others(path: Path) -> None:
    rows = SqliteWaitingRows(path)
    for each in waiting_rows("a", "bad", "c"):
        rows.add(each)
    written, write = failing(StorageError("value out of range"), "bad")
    assert move(rows, write) == 1
    assert written == ["a", "c"]
    assert rows.count() == 0


# --- usage -------------------------------------------------------------------------------------------


def test_usage_that_arrives_twice_counts_once(postgres) -> None:
    store, twice = postgres.usage(), [row(), row()]
    store.write(twice)
    store.write([*twice, row()])
    assert postgres.database().run("SELECT sum(requests) FROM gemini_bridge.usage_day") == [(3,)]


def waiting_usage(postgres, path: Path, most: int = 100) -> WaitingUsageStore:
    database = postgres.database()
    bridges = PostgresBridges(database, PostgresLedger(database), path.parent)
    return WaitingUsageStore(postgres.usage(), SqliteWaitingRows(path, most), bridges)


def test_a_row_that_an_earlier_version_left_arrives(postgres, path: Path) -> None:
    """It has fewer values: those up to the service tier, and perhaps its late usage."""
    rows = SqliteWaitingRows(path)
    booking = (
        PostgresLedger(postgres.database())
        .enter([LimitedSubject("key:a", "", Limits(tokens_per_day=100))])
        .booking
    )
    late = late_usage(booking, 7, 0.5)
    for number, more in enumerate(([], [list(late)])):
        rows.add(WaitingRow(f"old {number}", [*row(tier="flex", id=f"old {number}")[:18], *more]))
    store = waiting_usage(postgres, path)
    store.flush()
    assert store.waiting() == 0
    (group,) = postgres.usage().sums(UsageQuery(("tier",), date(2000, 1, 1), date(2100, 1, 1)))
    assert (group.names, group.sums.requests) == (("flex",), 2)
    assert postgres.database().run("SELECT tokens FROM gemini_bridge.day") == [(7,)]


@pytest.mark.parametrize("ends", ["killed before its end", "ends, and is killed", "ends long after"])
def test_a_request_is_booked_once(postgres, path: Path, ends: str) -> None:
    """By the ledger, or from its usage row if its worker was killed before it could tell the ledger."""
    ledger, store = PostgresLedger(postgres.database()), waiting_usage(postgres, path)
    booking = ledger.enter([LimitedSubject("key:alice", "", Limits(tokens_per_day=100))]).booking
    assert booking is not None
    assert store.keep(row(), late_usage(booking, 7, 0.5))
    if ends == "ends, and is killed":
        ledger.leave(booking, 7, 0.5)
    store.flush()
    assert store.waiting() == 1, "the ledger comes first"
    store.finish()
    assert store.waiting() == 0
    if ends == "ends long after":
        ledger.leave(booking, 7, 0.5)
    database = postgres.database()
    assert database.run("SELECT tokens, cost FROM gemini_bridge.day") == [(7, 0.5)]
    assert database.run("SELECT count(*) FROM gemini_bridge.request") == [(1,)]


def test_a_row_of_the_version_before_is_moved(postgres, path: Path) -> None:
    SqliteWaitingRows(path).add(WaitingRow("usage_1", list(row())))
    waiting_usage(postgres, path).flush()
    assert postgres.database().run("SELECT count(*) FROM gemini_bridge.request") == [(1,)]


def test_usage_that_finds_no_space_in_the_file_is_written_from_memory(
    postgres, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_writer, "GATHERING", 0.01)
    store = waiting_usage(postgres, path, most=2)
    writer = UsageWriter(store)
    for _ in range(5):
        writer.put(row())
    count = "SELECT count(*) FROM gemini_bridge.request"
    assert eventually(lambda: postgres.database().run(count) == [(3,)])
    assert store.waiting() == 2
    writer.close()
    assert postgres.database().run(count) == [(5,)]


def test_a_bridge_on_files_loads_and_creates_nothing_of_this(tmp_path: Path) -> None:
    code = """
import os, sys
from bridge.web.app import create_app
create_app()
ours = ("bridge.state.away", "bridge.state.postgres", "bridge.observe.state_metrics", "psycopg")
assert not [name for name in sys.modules if name.startswith(ours)]
made = os.listdir(os.environ["BRIDGE_STATE_DIR"])
assert not [name for name in made if "waiting" in name or "away" in name]
"""
    environment = clean_environment() | {"BRIDGE_STATE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT, env=environment)
