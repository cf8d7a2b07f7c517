"""Thought signatures in an SQLite file, limited in age and number."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from bridge.state.absent_ids import AbsentIds
from bridge.state.errors import StorageError
from bridge.state.signature_store import SignatureStore
from bridge.state.sqlite.database import Database, SqliteStore, Work
from bridge.state.sqlite.migrations import Schema, statements

T = TypeVar("T")

LIFETIME = 7 * 24 * 3600
MOST_ROWS = 100_000
#: Tidying reads the whole table, so it runs once in this many writes.
WRITES_BETWEEN_TIDYING = 500
MOST_AT_ONCE = 500

SCHEMA = Schema(
    "owned_signature",
    (
        statements(
            """
            CREATE TABLE IF NOT EXISTS owned_signature (
                owner TEXT NOT NULL, family TEXT NOT NULL, call_id TEXT NOT NULL, signature TEXT NOT NULL,
                kept REAL NOT NULL, PRIMARY KEY (owner, family, call_id)
            ) WITHOUT ROWID
            """,
            "DROP TABLE IF EXISTS signature",  # of a version before 0.1.0: its rows have no owner
        ),
    ),
)
_KEEP = (
    "INSERT OR REPLACE INTO owned_signature (owner, family, call_id, signature, kept) VALUES (?, ?, ?, ?, ?)"
)

log = logging.getLogger(__name__)


class SqliteSignatureStore(SqliteStore, SignatureStore):
    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        self._database = Database(path, SCHEMA)
        self._now = now
        self._writes = 0
        self._absent = AbsentIds(now)

    def keep(self, owner: str, family: str, signatures: Mapping[str, str]) -> None:
        rows = [(owner, family, call_id, signature, self._now()) for call_id, signature in signatures.items()]

        def insert(database: sqlite3.Connection) -> None:
            database.executemany(_KEEP, rows)
            self._writes += 1
            if self._writes % WRITES_BETWEEN_TIDYING == 1:
                self._tidy(database)

        self._attempt(self._database.transaction, insert, None)
        self._absent.forget(owner, family, signatures)

    def find(self, owner: str, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        wanted = self._absent.wanted(owner, family, call_ids)
        found: dict[str, str] = {}
        for start in range(0, len(wanted), MOST_AT_ONCE):
            found.update(self._found(owner, family, wanted[start : start + MOST_AT_ONCE]))
        return found

    def _found(self, owner: str, family: str, wanted: Sequence[str]) -> Mapping[str, str]:
        marks = ",".join("?" * len(wanted))
        query = (
            "SELECT call_id, signature FROM owned_signature "
            f"WHERE owner = ? AND family = ? AND call_id IN ({marks})"
        )

        def look(database: sqlite3.Connection) -> dict[str, str]:
            found = dict(database.execute(query, (owner, family, *wanted)).fetchall())
            self._absent.add(owner, family, (call_id for call_id in wanted if call_id not in found))
            return found

        nothing: dict[str, str] = {}
        return self._attempt(self._database.read, look, nothing)

    def _tidy(self, database: sqlite3.Connection) -> None:
        database.execute("DELETE FROM owned_signature WHERE kept < ?", (self._now() - LIFETIME,))
        key = "owner, family, call_id"
        oldest = f"SELECT {key} FROM owned_signature ORDER BY kept DESC LIMIT -1 OFFSET ?"
        database.execute(f"DELETE FROM owned_signature WHERE ({key}) IN ({oldest})", (MOST_ROWS,))

    def _attempt(self, run: Callable[[Work[T]], T], work: Work[T], otherwise: T) -> T:
        try:
            return run(work)
        except StorageError as error:
            log.warning("signature store not usable", extra={"reason": error.reason})
            return otherwise
