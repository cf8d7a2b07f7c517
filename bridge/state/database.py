"""One SQLite file, opened when it is first needed, once in each process."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: Longer than any write takes, shorter than a client would notice.
BUSY_TIMEOUT = 0.25


#: A connection does not survive a fork, and closing it in the child would harm the parent's: it is only kept.
_INHERITED: list[sqlite3.Connection] = []


class Database:
    def __init__(self, path: Path, schema: str) -> None:
        self._path = path
        self._schema = schema
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()

    def transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Raises `sqlite3.Error` or `OSError`, as the file system may have it."""
        with self._lock, self._connected() as database:
            return work(database)

    def __del__(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._process != os.getpid():
            _INHERITED.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection, self._process = self._opened(), os.getpid()
        return self._connection

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(self._schema)
        except sqlite3.Error:
            connection.close()
            raise
        return connection
