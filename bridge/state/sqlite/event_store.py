"""Events of background answers in an SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from bridge.state.event_store import MOST_BATCHES, EventBatch, EventStore
from bridge.state.sqlite.database import Database, SqliteStore
from bridge.state.sqlite.migrations import Schema, statements

#: Tidying looks at all rows, so it runs once in this many writes.
WRITES_BETWEEN_TIDYING = 500

SCHEMA = Schema(
    "event_batch",
    (
        statements(
            """
            CREATE TABLE event_batch (
                owner TEXT NOT NULL, answer TEXT NOT NULL, first INTEGER NOT NULL, length INTEGER NOT NULL,
                last INTEGER NOT NULL, kept REAL NOT NULL, data BLOB NOT NULL,
                PRIMARY KEY (owner, answer, first)
            )
            """,
        ),
    ),
)

_APPEND = (
    "INSERT OR REPLACE INTO event_batch (owner, answer, first, length, last, kept, data)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_READ = (
    "SELECT first, length, data, last FROM event_batch"
    " WHERE owner = ? AND answer = ? AND (first + length > ? OR last) ORDER BY first LIMIT ?"
)
_EXISTS = "SELECT 1 FROM event_batch WHERE owner = ? AND answer = ? LIMIT 1"
_FORGET = "DELETE FROM event_batch WHERE owner = ? AND answer = ?"
_FORGET_EXPIRED = (
    "DELETE FROM event_batch WHERE answer IN"
    " (SELECT answer FROM event_batch GROUP BY answer HAVING MAX(kept) <= ?)"
)
_FORGET_EXCESS = """
DELETE FROM event_batch WHERE answer IN (
    SELECT answer FROM (
        SELECT answer, SUM(size) OVER (ORDER BY newest DESC, answer) AS up_to FROM (
            SELECT answer, SUM(LENGTH(data)) AS size, MAX(kept) AS newest FROM event_batch GROUP BY answer
        )
    ) WHERE up_to > ?
)
"""


class SqliteEventStore(SqliteStore, EventStore):
    def __init__(self, path: Path, days: float, megabytes: int, now: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        # A cached statement keeps its last values, which may be megabytes.
        self._database = Database(path, SCHEMA, cached_statements=0)
        self._lifetime = days * 24 * 3600
        self._most_bytes = megabytes * 1024 * 1024
        self._now = now
        self._writes = 0

    def append(self, owner: str, answer_id: str, batch: EventBatch) -> None:
        row = (owner, answer_id, batch.first, batch.length, batch.last, self._now(), batch.data)

        def insert(database: sqlite3.Connection) -> None:
            database.execute(_APPEND, row)
            self._writes += 1
            if self._writes % WRITES_BETWEEN_TIDYING == 0:
                self._tidy(database)

        self._database.transaction(insert)

    def exists(self, owner: str, answer_id: str) -> bool:
        row = self._database.read(lambda database: database.execute(_EXISTS, (owner, answer_id)).fetchone())
        return row is not None

    def read(self, owner: str, answer_id: str, position: int) -> list[EventBatch]:
        values = (owner, answer_id, position, MOST_BATCHES)
        rows = self._database.read(lambda database: database.execute(_READ, values).fetchall())
        return [EventBatch(first, length, data, bool(last)) for first, length, data, last in rows]

    def forget(self, owner: str, answer_id: str) -> None:
        self._database.transaction(lambda database: database.execute(_FORGET, (owner, answer_id)))

    def _tidy(self, database: sqlite3.Connection) -> None:
        database.execute(_FORGET_EXPIRED, (self._now() - self._lifetime,))
        database.execute(_FORGET_EXCESS, (self._most_bytes,))
