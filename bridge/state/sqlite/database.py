"""One SQLite file, opened on first use, once in each process."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from bridge.state.errors import StorageError, StorageUnavailable
from bridge.state.private_file import create_private, file_error
from bridge.state.sqlite.migrations import Schema, migrate, version_of
from bridge.state.store import Store, StoreCheck

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

#: Seconds to wait for a lock: longer than any write takes, shorter than a client would notice.
BUSY_TIMEOUT = 0.25
#: Seconds that the doctor waits for a lock.
CHECK_TIMEOUT = 2.0

#: For files that every request writes to: readers and the writer do not wait for one another.
WAL = ("WAL", "NORMAL")
#: For files that are seldom written: they can be read on a full or read-only disk, and every write is safe.
ROLLBACK = ("DELETE", "FULL")

#: SQLite's primary result codes for conditions that may pass.
_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)

#: A connection does not survive a fork, and closing it in the child would harm the parent's. The child keeps
#: a reference, so that the connection is never closed.
_INHERITED: list[sqlite3.Connection] = []


class Database:
    def __init__(
        self, path: Path, schema: Schema, mode: tuple[str, str] = WAL, cached_statements: int = 128
    ) -> None:
        """A cached statement keeps the values of its last execution in memory."""
        self.path = path
        self._schema = schema
        self._mode = mode
        self._cached_statements = cached_statements
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()

    def transaction(self, work: Work[T]) -> T:
        try:
            with self._lock, self._connected() as database:
                # A transaction that begins by reading cannot wait for the lock when it writes later.
                database.execute("BEGIN IMMEDIATE")
                return work(database)
        except (sqlite3.Error, OSError) as error:
            raise storage_error(self.path, error) from error

    def read(self, work: Work[T]) -> T:
        """Like `transaction`, for work that changes nothing: it waits for no writer."""
        try:
            with self._lock, self._connected() as database:
                database.execute("BEGIN")
                return work(database)
        except (sqlite3.Error, OSError) as error:
            raise storage_error(self.path, error) from error

    def upgrade(self) -> tuple[int, int]:
        """Bring the tables up to date, as opening does, and return the versions before and after."""
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as found:
                before = version_of(found, self._schema, str(self.path))
        except sqlite3.Error as error:
            raise storage_error(self.path, error) from error
        self.read(lambda _database: None)
        return before, len(self._schema.steps)

    def __del__(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._process != os.getpid():
            _INHERITED.append(self._connection)
            self._connection = None
        if self._connection is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_private(self.path)
            self._connection, self._process = self._opened(), os.getpid()
        return self._connection

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=BUSY_TIMEOUT,
            check_same_thread=False,
            cached_statements=self._cached_statements,
        )
        journal, synchronous = self._mode
        try:
            connection.execute(f"PRAGMA journal_mode = {journal}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            migrate(connection, self._schema, str(self.path))
            connection.execute(f"PRAGMA busy_timeout = {round(BUSY_TIMEOUT * 1000)}")
        except (sqlite3.Error, StorageError):
            connection.close()
            raise
        return connection


class SqliteStore(Store):
    """The part of a store that is the same for every SQLite file."""

    _database: Database

    def __init__(self, path: Path) -> None:
        self._path = path

    def upgrade(self) -> list[str]:
        """Bring the tables up to date, if there is a file. Returns what was done."""
        before, after = self._database.upgrade() if self._path.exists() else (0, 0)
        return [] if before == after else [f"{self._path.name}: version {before} -> {after}"]

    @property
    def location(self) -> str:
        return str(self._path)

    def check(self) -> StoreCheck:
        if not self._path.exists():
            return StoreCheck(self._path.name, exists=False)
        problem, remedy = _problem(self._path)
        return StoreCheck(self._path.name, True, problem, remedy)


def _problem(path: Path) -> tuple[str, str]:
    """What is wrong with the file, and what to do. Two empty texts if nothing is."""
    folder = path.parent
    if path.stat().st_uid != folder.stat().st_uid:
        problem = f"belongs to user {path.stat().st_uid}, and not to the folder's owner"
        return problem, f"chown -R --reference={folder} {folder}"
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=CHECK_TIMEOUT)) as database:
            found = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        found = str(error)
    if found == "ok":
        return "", ""
    remedy = "stop the service, put the backup of the file in its place (or move it away), and start again"
    return found.splitlines()[-1], remedy


def storage_error(path: Path, error: sqlite3.Error | OSError) -> StorageError:
    """The same error in the terms of the interface."""
    if isinstance(error, OSError):
        return file_error(path, error)
    passing = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _PASSING
    kind = StorageUnavailable if passing else StorageError
    return kind(f"{path} cannot be used: {error}", str(error))
