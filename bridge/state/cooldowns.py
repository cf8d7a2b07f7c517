"""Rests shared by all workers: what one of them was refused, the others need not try.

A convenience like the vault: when the file cannot be used, each worker finds out for itself.
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

_SCHEMA = "CREATE TABLE IF NOT EXISTS rest (name TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID"
_PROLONG = """
INSERT INTO rest VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET until = MAX(until, excluded.until)
"""

log = logging.getLogger(__name__)


class SharedCooldowns:
    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._database = Database(path, _SCHEMA)
        self._now = now
        self._lock = threading.Lock()
        self._looked = 0.0
        self._until: dict[str, float] = {}

    def rest(self, name: str, seconds: float) -> None:
        until = self._now() + seconds
        self._until[name] = max(until, self._until.get(name, 0.0))

        def write(database: sqlite3.Connection) -> None:
            database.execute("DELETE FROM rest WHERE until <= ?", (self._now(),))
            database.execute(_PROLONG, (name, until))

        self._attempt(write)

    def left(self, name: str) -> float:
        now = self._now()
        # One thread looks; the others need not wait for it.
        if abs(now - self._looked) >= BETWEEN_LOOKS and self._lock.acquire(blocking=False):
            try:
                self._looked = now
                self._attempt(self._look)
            finally:
                self._lock.release()
        return max(0.0, self._until.get(name, 0.0) - now)

    def _look(self, database: sqlite3.Connection) -> None:
        rows = database.execute("SELECT name, until FROM rest WHERE until > ?", (self._now(),)).fetchall()
        self._until = dict(rows)

    def _attempt(self, work: Callable[[sqlite3.Connection], None]) -> None:
        try:
            self._database.transaction(work)
        except (sqlite3.Error, OSError) as error:
            log.warning("cool-downs are not shared", extra={"reason": type(error).__name__})
