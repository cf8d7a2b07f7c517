"""Names that count until a point in time, shared by all workers in one SQLite file: cool-downs and facts."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bridge.state.cooldown_store import CooldownStore
from bridge.state.errors import StorageError
from bridge.state.learnt_facts import LIFETIME, LearntFactStore
from bridge.state.sqlite.database import Database, SqliteStore, Work
from bridge.state.sqlite.migrations import Schema, statements

#: Seconds between two reads of the file. A name that another worker added is known after this time.
BETWEEN_LOOKS = 1.0

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

log = logging.getLogger(__name__)


class _ExpiringNames(SqliteStore):
    """When the file cannot be used, each worker uses the names that it has seen itself."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        self._database = Database(path, SCHEMA)
        self._now = now
        self._lock = threading.Lock()
        self._looked = 0.0
        self._until: dict[str, float] = {}

    def _add(self, name: str, seconds: float) -> bool:
        """True if the name did not count before, in any worker. A later end is kept."""
        now = self._now()
        new = self._until.get(name, 0.0) <= now
        self._until[name] = max(now + seconds, self._until.get(name, 0.0))

        def write(database: sqlite3.Connection) -> None:
            nonlocal new
            database.execute("DELETE FROM expiring WHERE until <= ?", (now,))
            new = database.execute("SELECT 1 FROM expiring WHERE name = ?", (name,)).fetchone() is None
            database.execute(_PROLONG, (name, now + seconds))

        self._attempt(self._database.transaction, write)
        return new

    def left(self, name: str) -> float:
        """Seconds for which the name still counts; 0 if it does not."""
        return max(0.0, self._current().get(name, 0.0) - self._now())

    def _current(self) -> dict[str, float]:
        now = self._now()
        # One thread reads the file; the others do not wait for it.
        if abs(now - self._looked) >= BETWEEN_LOOKS and self._lock.acquire(blocking=False):
            try:
                self._looked = now
                if self._path.exists():
                    self._attempt(self._database.read, self._look)
            finally:
                self._lock.release()
        return self._until

    def _look(self, database: sqlite3.Connection) -> None:
        rows = database.execute("SELECT name, until FROM expiring WHERE until > ?", (self._now(),)).fetchall()
        self._until = dict(rows)

    def _attempt(self, run: Callable[[Work[None]], None], work: Work[None]) -> None:
        try:
            run(work)
        except StorageError as error:
            told = {"file": self._path.name, "reason": error.reason}
            log.warning("not shared between workers", extra=told)


class SqliteCooldownStore(_ExpiringNames, CooldownStore):
    def rest(self, name: str, seconds: float) -> None:
        self._add(name, seconds)


class SqliteLearntFactStore(_ExpiringNames, LearntFactStore):
    def learn(self, fact: str) -> bool:
        return self._add(fact, LIFETIME)

    def knows(self, fact: str) -> bool:
        return self.left(fact) > 0
