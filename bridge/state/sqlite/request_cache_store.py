"""The request cache in an SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from bridge.state.request_cache_store import WRITES_BETWEEN_TIDYING, CachedEntry, RequestCacheStore
from bridge.state.sqlite.database import Database, SqliteStore
from bridge.state.sqlite.migrations import Schema, statements

SCHEMA = Schema(
    "cached_answer",
    (
        statements(
            """
            CREATE TABLE cached_answer (
                scope TEXT NOT NULL, digest BLOB NOT NULL, made REAL NOT NULL, ends REAL NOT NULL,
                data BLOB NOT NULL, PRIMARY KEY (scope, digest)
            )
            """,
        ),
    ),
)

_FIND = "SELECT data, made FROM cached_answer WHERE scope = ? AND digest = ? AND ends > ?"
_KEEP = "INSERT OR REPLACE INTO cached_answer (scope, digest, made, ends, data) VALUES (?, ?, ?, ?, ?)"
_CLEAR = "DELETE FROM cached_answer WHERE ?1 IS NULL OR scope = ?1"
_FORGET_EXPIRED = "DELETE FROM cached_answer WHERE ends <= ?"
_FORGET_EXCESS = """
DELETE FROM cached_answer WHERE rowid IN (
    SELECT rowid FROM (
        SELECT rowid, SUM(LENGTH(data)) OVER (ORDER BY made DESC, rowid DESC) AS up_to FROM cached_answer
    ) WHERE up_to > ?
)
"""


class SqliteRequestCacheStore(SqliteStore, RequestCacheStore):
    def __init__(self, path: Path, megabytes: int, now: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        # A cached statement keeps its last values, which may be megabytes.
        self._database = Database(path, SCHEMA, cached_statements=0)
        self._most_bytes = megabytes * 1024 * 1024
        self._now = now
        self._writes = 0

    def find(self, scope: str, digest: bytes) -> CachedEntry | None:
        now = self._now()
        row = self._database.read(lambda database: database.execute(_FIND, (scope, digest, now)).fetchone())
        return None if row is None else CachedEntry(row[0], max(0.0, now - row[1]))

    def keep(self, scope: str, digest: bytes, data: bytes, lifetime: float) -> None:
        now = self._now()

        def write(database: sqlite3.Connection) -> None:
            database.execute(_KEEP, (scope, digest, now, now + lifetime, data))
            self._writes += 1
            if self._writes % WRITES_BETWEEN_TIDYING == 0:
                database.execute(_FORGET_EXPIRED, (now,))
                database.execute(_FORGET_EXCESS, (self._most_bytes,))

        self._database.transaction(write)

    def clear(self, scope: str | None = None) -> int:
        return self._database.transaction(lambda database: database.execute(_CLEAR, (scope,)).rowcount)
