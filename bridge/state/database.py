"""One SQLite file, opened when it is first needed, once in each process."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

#: Longer than any write takes, shorter than a client would notice.
BUSY_TIMEOUT = 0.25

#: For files that every request writes to: readers and the writer do not wait for one another.
WAL = ("WAL", "NORMAL")
#: For files that are seldom written: they can be read on a full or read-only disk, and every write is safe.
ROLLBACK = ("DELETE", "FULL")

#: A connection does not survive a fork, and closing it in the child would harm the parent's: it is only kept.
_INHERITED: list[sqlite3.Connection] = []


class Column(NamedTuple):
    table: str
    name: str
    declared: str


class Database:
    #: Statements that are kept prepared, each with the values it was given last.
    prepared = 128

    def __init__(
        self, path: Path, schema: str, mode: tuple[str, str] = WAL, added: Sequence[Column] = ()
    ) -> None:
        """`added` are columns that the schema has and a file of an older version may lack."""
        self._path = path
        self._schema = schema
        self._added = added
        self._mode = mode
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()

    def transaction(self, work: Work[T]) -> T:
        """Raises `sqlite3.Error` or `OSError`, as the file system may have it."""
        with self._lock, self._connected() as database:
            # At once: a transaction that begins by reading cannot wait for the lock when it comes to write.
            database.execute("BEGIN IMMEDIATE")
            return work(database)

    def read(self, work: Work[T]) -> T:
        """Like `transaction`, for what changes nothing: it waits for no writer."""
        with self._lock, self._connected() as database:
            database.execute("BEGIN")
            return work(database)

    def __del__(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._process != os.getpid():
            _INHERITED.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_private(self._path)
            self._connection, self._process = self._opened(), os.getpid()
        return self._connection

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_TIMEOUT, check_same_thread=False, cached_statements=self.prepared
        )
        journal, synchronous = self._mode
        try:
            connection.execute(f"PRAGMA journal_mode = {journal}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.executescript(self._schema)
            for column in self._added:
                _add(column, connection)
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _add(column: Column, database: sqlite3.Connection) -> None:
    if has_column(database, column.table, column.name):
        return
    with database:
        database.execute("BEGIN IMMEDIATE")
        if not has_column(database, column.table, column.name):  # another worker may have been quicker
            database.execute(f"ALTER TABLE {column.table} ADD COLUMN {column.name} {column.declared}")


def has_column(database: sqlite3.Connection, table: str, name: str) -> bool:
    return any(row[1] == name for row in database.execute(f"PRAGMA table_info({table})"))


def create_private(path: Path) -> None:
    """For its owner's eyes alone. What root makes from the command line belongs to whom the folder does: the
    service must be able to open it."""
    if path.exists():
        return
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        return
    try:
        if os.geteuid() == 0:
            folder = path.parent.stat()
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
    finally:
        os.close(descriptor)
