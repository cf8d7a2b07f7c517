"""Names that count until a point in time, in one SQLite file for all workers: cool-downs, facts, failures."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bridge.state.expiring_names import ExpiringCooldowns, ExpiringFacts, ExpiringFailures, ExpiringNames
from bridge.state.sqlite.database import Database, SqliteStore
from bridge.state.sqlite.migrations import Schema, statements

SCHEMA = Schema(
    "expiring",
    (
        statements(
            "CREATE TABLE IF NOT EXISTS expiring (name TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID"
        ),
    ),
)
_PROLONG = """
INSERT INTO expiring (name, until) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET until = MAX(until, excluded.until)
"""


class _SqliteNames(SqliteStore, ExpiringNames):
    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        SqliteStore.__init__(self, path)
        ExpiringNames.__init__(self, path.name, now)
        self._database = Database(path, SCHEMA)

    def _write(self, name: str, seconds: float) -> bool:
        now = self._now()

        def write(database: sqlite3.Connection) -> bool:
            database.execute("DELETE FROM expiring WHERE until <= ?", (now,))
            known = database.execute("SELECT 1 FROM expiring WHERE name = ?", (name,)).fetchone()
            database.execute(_PROLONG, (name, now + seconds))
            return known is None

        return self._database.transaction(write)

    def _read(self) -> Mapping[str, float]:
        if not self._path.exists():
            return {name: until - self._now() for name, until in self._until.items()}
        now, query = self._now(), "SELECT name, until FROM expiring WHERE until > ?"
        rows = self._database.read(lambda database: database.execute(query, (now,)).fetchall())
        return {name: until - now for name, until in rows}


class SqliteCooldownStore(_SqliteNames, ExpiringCooldowns):
    pass


class SqliteLearntFactStore(_SqliteNames, ExpiringFacts):
    pass


class SqliteUpstreamFailureStore(_SqliteNames, ExpiringFailures):
    pass
