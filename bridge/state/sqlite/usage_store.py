"""Usage in an SQLite file.

A trigger adds every row to the sums of its day in the same transaction, so rows and sums cannot disagree. Old
rows are deleted a few at a time. The file never shrinks, and new rows use the space of deleted ones: a VACUUM
would block all writers.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from bridge.state.sqlite import usage_report
from bridge.state.sqlite.database import Database, SqliteStore
from bridge.state.sqlite.migrations import Schema, Step, added_column, statements
from bridge.state.usage_store import (
    MOST_REFUSALS,
    ExperimentRequest,
    Refusal,
    RefusalSum,
    UsageGroup,
    UsageQuery,
    UsageRow,
    UsageStore,
)

DAY = 24 * 3600
#: The most rows that one step of tidying deletes, which takes milliseconds.
ROWS_IN_A_STEP = 1000


def _added_columns(**declarations: str) -> Step:
    """Columns of `request`."""
    steps = [added_column("request", *each) for each in declarations.items()]

    def step(connection: sqlite3.Connection) -> None:
        for add in steps:
            add(connection)

    return step


SCHEMA = Schema(
    "refusal",
    (
        statements(
            """
            CREATE TABLE IF NOT EXISTS request (
                id INTEGER PRIMARY KEY, at REAL NOT NULL, key TEXT NOT NULL, protocol TEXT NOT NULL,
                client TEXT NOT NULL, client_model TEXT NOT NULL, model TEXT NOT NULL, input INTEGER NOT NULL,
                cached INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost REAL,
                seconds REAL NOT NULL, first_byte REAL, outcome TEXT NOT NULL, error TEXT NOT NULL,
                status INTEGER NOT NULL, tier TEXT NOT NULL DEFAULT ''
            )
            """,
            "CREATE INDEX IF NOT EXISTS request_at ON request (at)",
            """
            CREATE TABLE IF NOT EXISTS day (
                day TEXT NOT NULL, key TEXT NOT NULL, protocol TEXT NOT NULL, model TEXT NOT NULL,
                requests INTEGER NOT NULL, failed INTEGER NOT NULL, client_left INTEGER NOT NULL,
                unpriced INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL,
                output INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost REAL NOT NULL,
                PRIMARY KEY (day, key, protocol, model)
            ) WITHOUT ROWID
            """,
            """
            CREATE TABLE IF NOT EXISTS refusal (
                day TEXT NOT NULL, key TEXT NOT NULL, protocol TEXT NOT NULL, rule TEXT NOT NULL,
                model TEXT NOT NULL, requests INTEGER NOT NULL, PRIMARY KEY (day, key, protocol, rule, model)
            ) WITHOUT ROWID
            """,
        ),
        added_column("request", "tier", "TEXT NOT NULL DEFAULT ''"),  # for files from before 0.1.0
        statements(
            "DROP TRIGGER IF EXISTS request_counted",  # that of 0.1.0 did not name the columns
            """
            CREATE TRIGGER request_counted AFTER INSERT ON request BEGIN
                INSERT INTO day (
                    day, key, protocol, model, requests, failed, client_left, unpriced,
                    input, cached, output, reasoning, cost
                ) VALUES (
                    date(NEW.at, 'unixepoch'), NEW.key, NEW.protocol, NEW.model,
                    1, NEW.outcome = 'failed', NEW.outcome = 'client_left', NEW.cost IS NULL,
                    NEW.input, NEW.cached, NEW.output, NEW.reasoning, ifnull(NEW.cost, 0)
                ) ON CONFLICT DO UPDATE SET
                    requests = requests + 1, failed = failed + excluded.failed,
                    client_left = client_left + excluded.client_left, unpriced = unpriced + excluded.unpriced,
                    input = input + excluded.input, cached = cached + excluded.cached,
                    output = output + excluded.output, reasoning = reasoning + excluded.reasoning,
                    cost = cost + excluded.cost;
            END
            """,
        ),
        *(added_column(table, "from_cache", "INTEGER NOT NULL DEFAULT 0") for table in ("request", "day")),
        *(added_column(table, "saved", "REAL NOT NULL DEFAULT 0") for table in ("request", "day")),
        statements(
            "DROP TRIGGER request_counted",  # its successor counts answers of the request cache too
            """
            CREATE TRIGGER request_counted AFTER INSERT ON request BEGIN
                INSERT INTO day (
                    day, key, protocol, model, requests, failed, client_left, unpriced,
                    input, cached, output, reasoning, cost, from_cache, saved
                ) VALUES (
                    date(NEW.at, 'unixepoch'), NEW.key, NEW.protocol, NEW.model,
                    1, NEW.outcome = 'failed', NEW.outcome = 'client_left', NEW.cost IS NULL,
                    NEW.input, NEW.cached, NEW.output, NEW.reasoning, ifnull(NEW.cost, 0),
                    NEW.from_cache, NEW.saved
                ) ON CONFLICT DO UPDATE SET
                    requests = requests + 1, failed = failed + excluded.failed,
                    client_left = client_left + excluded.client_left, unpriced = unpriced + excluded.unpriced,
                    input = input + excluded.input, cached = cached + excluded.cached,
                    output = output + excluded.output, reasoning = reasoning + excluded.reasoning,
                    cost = cost + excluded.cost, from_cache = from_cache + excluded.from_cache,
                    saved = saved + excluded.saved;
            END
            """,
        ),
        _added_columns(
            conversation="TEXT NOT NULL DEFAULT ''",
            experiment="TEXT NOT NULL DEFAULT ''",
            arm="TEXT NOT NULL DEFAULT ''",
            assignment="TEXT NOT NULL DEFAULT ''",
            streamed="INTEGER NOT NULL DEFAULT 0",
            fallbacks="INTEGER NOT NULL DEFAULT 0",
            malformed="INTEGER NOT NULL DEFAULT 0",
        ),
        statements(
            "CREATE INDEX request_experiment ON request (experiment, at) WHERE experiment != ''",
        ),
    ),
)

_COLUMNS = [name for name in UsageRow._fields if name != "id"]  # the file numbers its rows itself
_INSERT = f"INSERT INTO request ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
_COUNT_REFUSALS = (
    "INSERT INTO refusal (day, key, protocol, rule, model, requests) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET requests = requests + excluded.requests"
)


class SqliteUsageStore(SqliteStore, UsageStore):
    def __init__(
        self,
        path: Path,
        *,
        days: int,
        request_days: int,
        megabytes: int,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(path)
        self._database = Database(path, SCHEMA)
        self._days = days
        self._request_days = request_days
        self._most_bytes = megabytes * 1024 * 1024
        self._now = now

    def write(self, rows: Sequence[UsageRow]) -> None:
        values = [row._asdict() for row in rows]
        self._database.transaction(lambda database: database.executemany(_INSERT, values))

    def count_refusals(self, refusals: Mapping[Refusal, int]) -> None:
        def count(database: sqlite3.Connection) -> None:
            known = "SELECT count(*) FROM refusal WHERE day = ?"
            for refusal, number in refusals.items():
                (rows,) = database.execute(known, (refusal.day,)).fetchone()
                named = refusal if rows < MOST_REFUSALS else refusal._replace(model="")
                database.execute(_COUNT_REFUSALS, (*named, number))

        self._database.transaction(count)

    def tidy(self) -> bool:
        return self._database.transaction(self._tidied)

    def stored_bytes(self) -> int:
        """With the rows that wait in the write-ahead log."""
        files = (self._path, self._path.with_name(f"{self._path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def sums(self, query: UsageQuery) -> list[UsageGroup]:
        return usage_report.sums(self._path, SCHEMA, query)

    def refusals(self, query: UsageQuery) -> list[RefusalSum]:
        return usage_report.refusals(self._path, SCHEMA, query)

    def experiment_requests(self, experiment: str, since: date, until: date) -> list[ExperimentRequest]:
        return usage_report.experiment_requests(self._path, SCHEMA, experiment, since, until)

    def _tidied(self, database: sqlite3.Connection) -> bool:
        oldest_day = datetime.fromtimestamp(self._now() - self._days * DAY, UTC).date().isoformat()
        database.execute("DELETE FROM day WHERE day <= ?", (oldest_day,))
        database.execute("DELETE FROM refusal WHERE day <= ?", (oldest_day,))
        deleted = _drop_oldest(database, self._now() - self._request_days * DAY)
        if deleted < ROWS_IN_A_STEP and _used_bytes(database) > self._most_bytes:
            deleted = _drop_oldest(database, self._now()) or _drop_oldest_day(database)
        return deleted >= ROWS_IN_A_STEP


def _drop_oldest(database: sqlite3.Connection, before: float) -> int:
    oldest = "SELECT id FROM request WHERE at < ? ORDER BY at LIMIT ?"
    return database.execute(f"DELETE FROM request WHERE id IN ({oldest})", (before, ROWS_IN_A_STEP)).rowcount


def _drop_oldest_day(database: sqlite3.Connection) -> int:
    return database.execute("DELETE FROM day WHERE day = (SELECT min(day) FROM day)").rowcount


def _used_bytes(database: sqlite3.Connection) -> int:
    pages, free, size = (
        int(database.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size
