"""Names that count until a point in time, shared by all workers in an SQLite file.

It is a convenience: when the file cannot be used, each worker goes by what it has seen itself.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bridge.state.database import Database

#: How long another worker's news may take; the file is not asked more often than this.
BETWEEN_LOOKS = 1.0

_SCHEMA = "CREATE TABLE IF NOT EXISTS expiring (name TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID"
_PROLONG = """
INSERT INTO expiring (name, until) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET until = MAX(until, excluded.until)
"""

log = logging.getLogger(__name__)


class ExpiringNames:
    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._file = path.name
        self._database = Database(path, _SCHEMA)
        self._now = now
        self._lock = threading.Lock()
        self._looked = 0.0
        self._until: dict[str, float] = {}

    def add(self, name: str, seconds: float) -> bool:
        """True if the name did not count before, in any worker. A later end is kept."""
        now = self._now()
        new = self._until.get(name, 0.0) <= now
        self._until[name] = max(now + seconds, self._until.get(name, 0.0))

        def write(database: sqlite3.Connection) -> None:
            nonlocal new
            database.execute("DELETE FROM expiring WHERE until <= ?", (now,))
            new = database.execute("SELECT 1 FROM expiring WHERE name = ?", (name,)).fetchone() is None
            database.execute(_PROLONG, (name, now + seconds))

        self._attempt(write)
        return new

    def left(self, name: str) -> float:
        """Seconds for which the name still counts; 0 if it does not."""
        return max(0.0, self._current().get(name, 0.0) - self._now())

    def all(self) -> list[str]:
        now = self._now()
        return sorted(name for name, until in self._current().items() if until > now)

    def _current(self) -> dict[str, float]:
        now = self._now()
        # One thread looks; the others need not wait for it.
        if abs(now - self._looked) >= BETWEEN_LOOKS and self._lock.acquire(blocking=False):
            try:
                self._looked = now
                self._attempt(self._look)
            finally:
                self._lock.release()
        return self._until

    def _look(self, database: sqlite3.Connection) -> None:
        rows = database.execute("SELECT name, until FROM expiring WHERE until > ?", (self._now(),)).fetchall()
        self._until = dict(rows)

    def _attempt(self, work: Callable[[sqlite3.Connection], None]) -> None:
        try:
            self._database.transaction(work)
        except (sqlite3.Error, OSError) as error:
            log.warning(
                "not shared between workers", extra={"file": self._file, "reason": type(error).__name__}
            )
