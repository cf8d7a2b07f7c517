"""Thought signatures in a small SQLite file, for all workers and across restarts.

It is a convenience for clients that drop what they do not know: every failure is logged and forgotten, since
a lost signature costs a little quality and a failed request costs the turn. Bounded in time and number. Each
owner finds its own signatures alone: a call id is no secret, and clients choose what ids they send.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bridge.state.database import Database, Work

T = TypeVar("T")

LIFETIME = 7 * 24 * 3600
MOST_ROWS = 100_000
#: Tidying reads the whole table; once in so many writes is often enough.
WRITES_BETWEEN_TIDYING = 500
MOST_AT_ONCE = 500
MOST_ABSENT = 20_000
ABSENT_FOR = 300.0
#: Clients choose the ids that are looked up, and an absent one is remembered. Gemini's are shorter.
LONGEST_ID = 256

#: `signature` is the table of earlier versions. Its rows have no owner, so they are nobody's.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS owned_signature (
    owner TEXT NOT NULL, family TEXT NOT NULL, call_id TEXT NOT NULL, signature TEXT NOT NULL,
    kept REAL NOT NULL, PRIMARY KEY (owner, family, call_id)
) WITHOUT ROWID;
DROP TABLE IF EXISTS signature;
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnedVault:
    """What one owner has kept."""

    vault: SqliteVault
    owner: str

    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        self.vault.keep(self.owner, family, signatures)

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        return self.vault.find(self.owner, family, call_ids)


class SqliteVault:
    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._database = Database(path, _SCHEMA)
        self._now = now
        self._writes = 0
        self._absent: dict[tuple[str, str, str], float] = {}  #: and until when that is believed

    def of(self, owner: str) -> OwnedVault:
        return OwnedVault(self, owner)

    def keep(self, owner: str, family: str, signatures: Mapping[str, str]) -> None:
        rows = [(owner, family, call_id, signature, self._now()) for call_id, signature in signatures.items()]

        def insert(database: sqlite3.Connection) -> None:
            database.executemany("INSERT OR REPLACE INTO owned_signature VALUES (?, ?, ?, ?, ?)", rows)
            self._writes += 1
            if self._writes % WRITES_BETWEEN_TIDYING == 1:
                self._tidy(database)

        self._attempt(self._database.transaction, insert, None)
        for call_id in signatures:
            self._absent.pop((owner, family, call_id), None)

    def find(self, owner: str, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        """All of them, however many: a call that was signed in one request and not in the next one would
        change what Gemini has cached of the history."""
        now, absent = self._now(), self._absent
        wanted = [
            call_id
            for call_id in call_ids
            if len(call_id) <= LONGEST_ID and absent.get((owner, family, call_id), 0.0) < now
        ]
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
            self._remember_absent((owner, family, call_id) for call_id in wanted if call_id not in found)
            return found

        nothing: dict[str, str] = {}
        return self._attempt(self._database.read, look, nothing)

    def _remember_absent(self, absent: Iterable[tuple[str, str, str]]) -> None:
        """A signature is kept before the client learns of its call, so what is not here will not come; and
        agents send their whole history each turn. Not for ever, as an id may be used by two upstreams."""
        if len(self._absent) >= MOST_ABSENT:
            self._absent.clear()
        self._absent.update(dict.fromkeys(absent, self._now() + ABSENT_FOR))

    def _tidy(self, database: sqlite3.Connection) -> None:
        database.execute("DELETE FROM owned_signature WHERE kept < ?", (self._now() - LIFETIME,))
        key = "owner, family, call_id"
        oldest = f"SELECT {key} FROM owned_signature ORDER BY kept DESC LIMIT -1 OFFSET ?"
        database.execute(f"DELETE FROM owned_signature WHERE ({key}) IN ({oldest})", (MOST_ROWS,))

    def _attempt(self, run: Callable[[Work[T]], T], work: Work[T], otherwise: T) -> T:
        """Nothing that goes wrong reaches the caller."""
        try:
            return run(work)
        except (sqlite3.Error, OSError) as error:
            log.warning("signature store not usable", extra={"reason": type(error).__name__})
            return otherwise
