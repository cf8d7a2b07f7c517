"""The file of usage: its size, and files that earlier versions wrote."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from usage_rows import NOON, row

from bridge.state.sqlite.usage_store import SqliteUsageStore
from bridge.state.usage_store import UsageQuery, UsageStore, UsageSums, total


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "accounts.sqlite3"


def everything(store: UsageStore, by: str) -> UsageSums:
    return total(store.sums(UsageQuery((by,), date(2000, 1, 1), date(2100, 1, 1))))


def test_the_file_size_is_bounded_and_the_oldest_rows_are_deleted_first(path: Path, clock: Clock) -> None:
    store = SqliteUsageStore(path, days=400, request_days=31, megabytes=1, now=clock)
    for batch in range(60):
        clock.now = NOON + batch * 60
        store.write([row(clock.now - 1 + number / 1000, client_model="m" * 128) for number in range(500)])
        while store.tidy():
            pass
    assert path.stat().st_size < 2 * 1024 * 1024
    assert path.stat().st_size < store.stored_bytes() < 8 * 1024 * 1024, "with the journal"
    left = everything(store, "client").requests
    assert 0 < left < 30_000
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT min(at) FROM request").fetchone()[0] > NOON + 60
    database.close()
    assert everything(store, "day").requests == 30_000, "the sums stay"


def test_a_file_of_the_previous_version_gets_the_new_column_and_keeps_its_rows(
    path: Path, clock: Clock
) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(BEFORE_TIERS)
        database.execute(f"INSERT INTO request VALUES (NULL{', ?' * 16})", row()[:16])
        database.commit()
    everything = UsageQuery(("tier",), date(2026, 1, 1), date(2027, 1, 1))
    store = SqliteUsageStore(path, days=400, request_days=31, megabytes=256, now=clock)
    assert [(group.names, group.sums.requests) for group in store.sums(everything)] == [(("",), 1)]
    store.write([row(tier="flex", cost=1.0)])
    SqliteUsageStore(path, days=400, request_days=31, megabytes=256, now=clock).write([row(tier="flex")])
    told = {group.names[0]: group.sums.requests for group in store.sums(everything)}
    assert told == {"flex": 2, "": 1}


#: The table of single requests as the version without service tiers made it.
BEFORE_TIERS = """
CREATE TABLE request (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, key TEXT NOT NULL, protocol TEXT NOT NULL, client TEXT NOT NULL,
    client_model TEXT NOT NULL, model TEXT NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL,
    output INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost REAL, seconds REAL NOT NULL, first_byte REAL,
    outcome TEXT NOT NULL, error TEXT NOT NULL, status INTEGER NOT NULL
);
CREATE TABLE day (
    day TEXT NOT NULL, key TEXT NOT NULL, protocol TEXT NOT NULL, model TEXT NOT NULL,
    requests INTEGER NOT NULL, failed INTEGER NOT NULL, client_left INTEGER NOT NULL,
    unpriced INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL, cost REAL NOT NULL,
    PRIMARY KEY (day, key, protocol, model)
) WITHOUT ROWID;
"""
