"""Events of background answers in an SQLite file."""

from __future__ import annotations

import sqlite3

from bridge.state.event_store import MOST_BATCHES, EventBatch, EventStore
from bridge.state.sqlite.bounded_store import BoundedStore
from bridge.state.sqlite.migrations import Schema, statements

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


class SqliteEventStore(BoundedStore, EventStore):
    schema = SCHEMA
    table = "event_batch"
    id_column = "answer"
    sizes = """
        SELECT answer AS id, MAX(kept) AS since, SUM(LENGTH(data)) AS size FROM event_batch GROUP BY answer
    """
    writes_between_tidying = 500

    def append(self, owner: str, answer_id: str, batch: EventBatch) -> None:
        row = (owner, answer_id, batch.first, batch.length, batch.last, self._now(), batch.data)

        def insert(database: sqlite3.Connection) -> None:
            database.execute(_APPEND, row)
            self._tidy_sometimes(database)

        self._database.transaction(insert)

    def exists(self, owner: str, answer_id: str) -> bool:
        return self._row(_EXISTS, (owner, answer_id)) is not None

    def read(self, owner: str, answer_id: str, position: int) -> list[EventBatch]:
        values = (owner, answer_id, position, MOST_BATCHES)
        rows = self._database.read(lambda database: database.execute(_READ, values).fetchall())
        return [EventBatch(first, length, data, bool(last)) for first, length, data, last in rows]

    def forget(self, owner: str, answer_id: str) -> None:
        self._database.transaction(lambda database: database.execute(_FORGET, (owner, answer_id)))
