"""Summaries of conversations in an SQLite file."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Mapping, Sequence

from bridge.state.sqlite.bounded_store import BoundedStore
from bridge.state.sqlite.migrations import Schema, statements
from bridge.state.summary_store import (
    FAILED,
    MADE,
    MAKING,
    SECRET_BYTES,
    Claim,
    SummaryRow,
    SummaryStore,
    decided,
)

SCHEMA = Schema(
    "seal",
    (
        statements(
            """
            CREATE TABLE summary (
                digest BLOB PRIMARY KEY, owner TEXT NOT NULL, state TEXT NOT NULL, maker TEXT NOT NULL,
                until REAL NOT NULL, failures INTEGER NOT NULL, since REAL NOT NULL, text BLOB NOT NULL
            )
            """,
            "CREATE TABLE seal (one INTEGER PRIMARY KEY, secret BLOB NOT NULL)",
        ),
    ),
)

MOST_AT_ONCE = 500
_ROW = "SELECT state, maker, until, failures FROM summary WHERE digest = ?"
_WRITE = (
    "INSERT OR REPLACE INTO summary (digest, owner, state, maker, until, failures, since, text)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_RELEASE = f"""
UPDATE summary SET state = '{FAILED}', until = ?, failures = failures + ?
    WHERE digest = ? AND owner = ? AND state = '{MAKING}' AND maker = ?
"""


class SqliteSummaryStore(BoundedStore, SummaryStore):
    schema = SCHEMA
    table = "summary"
    id_column = "digest"
    sizes = "SELECT digest AS id, since, LENGTH(text) AS size FROM summary"

    def find(self, owner: str, digests: Sequence[bytes]) -> Mapping[bytes, str]:
        found: dict[bytes, str] = {}
        for start in range(0, len(digests), MOST_AT_ONCE):
            found.update(self._found(owner, digests[start : start + MOST_AT_ONCE]))
        return found

    def _found(self, owner: str, digests: Sequence[bytes]) -> Mapping[bytes, str]:
        marks = ",".join("?" * len(digests))
        query = (
            f"SELECT digest, text FROM summary WHERE owner = ? AND state = '{MADE}' AND digest IN ({marks})"
        )
        values = (owner, *digests)
        rows = self._database.read(lambda database: database.execute(query, values).fetchall())
        return {digest: text.decode() for digest, text in rows}

    def claim(self, owner: str, digest: bytes, maker: str, seconds: float) -> Claim:
        now = self._now()

        def work(database: sqlite3.Connection) -> Claim:
            row = database.execute(_ROW, (digest,)).fetchone()
            claim, failures = decided(row and SummaryRow(*row), maker, now)
            if claim is Claim.MINE:
                values = (digest, owner, MAKING, maker, now + seconds, failures, now, b"")
                database.execute(_WRITE, values)
            return claim

        return self._database.transaction(work)

    def keep(self, owner: str, digest: bytes, text: str) -> None:
        values = (digest, owner, MADE, "", 0.0, 0, self._now(), text.encode("utf-8", "replace"))

        def work(database: sqlite3.Connection) -> None:
            database.execute(_WRITE, values)
            self._tidy_sometimes(database)

        self._database.transaction(work)

    def release(self, owner: str, digest: bytes, maker: str, *, failed: bool) -> None:
        self._changed(_RELEASE, (self._now(), int(failed), digest, owner, maker))

    def secret(self) -> bytes:
        def work(database: sqlite3.Connection) -> bytes:
            drawn = secrets.token_bytes(SECRET_BYTES)
            database.execute("INSERT OR IGNORE INTO seal (one, secret) VALUES (1, ?)", (drawn,))
            return bytes(database.execute("SELECT secret FROM seal").fetchone()[0])

        return self._database.transaction(work)
