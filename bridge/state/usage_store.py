"""The accounts: a row for each request that was sent to a model, and the sums of each day.

A trigger adds every row to its day, in the same transaction, so that the two cannot disagree. Rows are kept
for weeks, sums for longer; both leave a few at a time. The file never shrinks, and what left it makes room
for what comes: a VACUUM would stop all writing. Days are days in UTC.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bridge.state.database import Column, Database

DAY = 24 * 3600
#: So many rows leave in one step, which takes milliseconds.
ROWS_IN_A_STEP = 1000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS request (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, key TEXT NOT NULL, protocol TEXT NOT NULL, client TEXT NOT NULL,
    client_model TEXT NOT NULL, model TEXT NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL,
    output INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost REAL, seconds REAL NOT NULL, first_byte REAL,
    outcome TEXT NOT NULL, error TEXT NOT NULL, status INTEGER NOT NULL, tier TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS request_at ON request (at);
CREATE TABLE IF NOT EXISTS day (
    day TEXT NOT NULL, key TEXT NOT NULL, protocol TEXT NOT NULL, model TEXT NOT NULL,
    requests INTEGER NOT NULL, failed INTEGER NOT NULL, client_left INTEGER NOT NULL,
    unpriced INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL, cost REAL NOT NULL,
    PRIMARY KEY (day, key, protocol, model)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS refusal (
    day TEXT NOT NULL, key TEXT NOT NULL, protocol TEXT NOT NULL, rule TEXT NOT NULL, model TEXT NOT NULL,
    requests INTEGER NOT NULL, PRIMARY KEY (day, key, protocol, rule, model)
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS request_counted AFTER INSERT ON request BEGIN
    INSERT INTO day VALUES (
        date(NEW.at, 'unixepoch'), NEW.key, NEW.protocol, NEW.model,
        1, NEW.outcome = 'failed', NEW.outcome = 'client_left', NEW.cost IS NULL,
        NEW.input, NEW.cached, NEW.output, NEW.reasoning, ifnull(NEW.cost, 0)
    ) ON CONFLICT DO UPDATE SET
        requests = requests + 1, failed = failed + excluded.failed,
        client_left = client_left + excluded.client_left, unpriced = unpriced + excluded.unpriced,
        input = input + excluded.input, cached = cached + excluded.cached,
        output = output + excluded.output, reasoning = reasoning + excluded.reasoning,
        cost = cost + excluded.cost;
END;
"""


class Row(NamedTuple):
    """One request, in the order of the table's columns. What is not known is empty."""

    at: float  #: when it ended
    key: str
    protocol: str
    client: str
    client_model: str
    model: str  #: the upstream's
    input: int
    cached: int
    output: int
    reasoning: int
    cost: float | None
    seconds: float
    first_byte: float | None
    outcome: str
    error: str
    status: int
    tier: str = ""  #: the service tier that served


class Refusal(NamedTuple):
    """What the requests have in common that were refused on one day before a model was asked."""

    day: str
    key: str
    protocol: str
    rule: str  #: the administrator's rule that refused them, else the kind of the error
    model: str  #: the client's name, where it is known


#: Rows of one day. Clients choose names of models, so what is above is counted without the name.
MOST_REFUSALS = 1000

_REFUSED = (
    "INSERT INTO refusal (day, key, protocol, rule, model, requests) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET requests = requests + excluded.requests"
)
_ADDED = (Column("request", "tier", "TEXT NOT NULL DEFAULT ''"),)
_INSERT = f"INSERT INTO request ({', '.join(Row._fields)}) VALUES ({', '.join('?' for _ in Row._fields)})"


class AccountStore:
    def __init__(
        self,
        path: Path,
        *,
        days: int,
        request_days: int,
        megabytes: int,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._database = Database(path, _SCHEMA, added=_ADDED)
        self._days = days
        self._request_days = request_days
        self._most_bytes = megabytes * 1024 * 1024
        self._now = now

    def write(self, rows: Sequence[Row]) -> None:
        self._database.transaction(lambda database: database.executemany(_INSERT, rows))

    def count_refusals(self, refusals: Mapping[Refusal, int]) -> None:
        def count(database: sqlite3.Connection) -> None:
            known = "SELECT count(*) FROM refusal WHERE day = ?"
            for refusal, number in refusals.items():
                (rows,) = database.execute(known, (refusal.day,)).fetchone()
                named = refusal if rows < MOST_REFUSALS else refusal._replace(model="")
                database.execute(_REFUSED, (*named, number))

        self._database.transaction(count)

    def tidy(self) -> bool:
        """Take one small step; true if there is more to be done."""
        return self._database.transaction(self._tidied)

    def file_bytes(self) -> int:
        """On disk, with what waits in the journal."""
        files = (self._path, self._path.with_name(f"{self._path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _tidied(self, database: sqlite3.Connection) -> bool:
        oldest_day = datetime.fromtimestamp(self._now() - self._days * DAY, UTC).date().isoformat()
        database.execute("DELETE FROM day WHERE day <= ?", (oldest_day,))
        database.execute("DELETE FROM refusal WHERE day <= ?", (oldest_day,))
        gone = _drop_oldest(database, self._now() - self._request_days * DAY)
        if gone < ROWS_IN_A_STEP and _used_bytes(database) > self._most_bytes:
            gone = _drop_oldest(database, self._now()) or _drop_oldest_day(database)
        return gone >= ROWS_IN_A_STEP


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
