"""Thought signatures in a small SQLite file, for all workers and across restarts.

It is a convenience for clients that drop what they do not know: every failure is logged and forgotten, since
a lost signature costs a little quality and a failed request costs the turn. Bounded in time and number.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

LIFETIME = 7 * 24 * 3600
MOST_ROWS = 100_000
#: Tidying reads the whole table; once in so many writes is often enough.
WRITES_BETWEEN_TIDYING = 500
#: Longer than any write takes, shorter than a client would notice.
BUSY_TIMEOUT = 0.25
MOST_LOOKED_UP = 500

_SCHEMA = """
CREATE TABLE IF NOT EXISTS signature (
    family TEXT NOT NULL, call_id TEXT NOT NULL, signature TEXT NOT NULL, kept REAL NOT NULL,
    PRIMARY KEY (family, call_id)
) WITHOUT ROWID
"""

log = logging.getLogger(__name__)


class SqliteVault:
    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._writes = 0

    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        rows = [(family, call_id, signature, self._now()) for call_id, signature in signatures.items()]

        def insert(database: sqlite3.Connection) -> None:
            database.executemany("INSERT OR REPLACE INTO signature VALUES (?, ?, ?, ?)", rows)
            self._writes += 1
            if self._writes % WRITES_BETWEEN_TIDYING == 1:
                self._tidy(database)

        self._attempt(insert, None)

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        wanted = list(call_ids)[-MOST_LOOKED_UP:]  # the newest turns are the ones Gemini checks
        marks = ",".join("?" * len(wanted))
        query = f"SELECT call_id, signature FROM signature WHERE family = ? AND call_id IN ({marks})"
        nothing: dict[str, str] = {}
        return self._attempt(
            lambda database: dict(database.execute(query, (family, *wanted)).fetchall()), nothing
        )

    def _tidy(self, database: sqlite3.Connection) -> None:
        database.execute("DELETE FROM signature WHERE kept < ?", (self._now() - LIFETIME,))
        database.execute(
            "DELETE FROM signature WHERE kept <="
            " (SELECT kept FROM signature ORDER BY kept DESC LIMIT 1 OFFSET ?)",
            (MOST_ROWS,),
        )

    def _attempt(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """One transaction. Nothing that goes wrong in it reaches the caller."""
        try:
            with self._lock, self._connected() as database:
                return work(database)
        except (sqlite3.Error, OSError) as error:
            log.warning("signature store not usable", extra={"reason": type(error).__name__})
            return otherwise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None or self._process != os.getpid():  # a connection does not survive a fork
            self._path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_SCHEMA)
            self._connection, self._process = connection, os.getpid()
        return self._connection
