"""Rows that wait for a database, in an SQLite file. A killed worker loses none; a power failure may lose the
rows of the last seconds."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import orjson

from bridge.state.sqlite.database import Database, SqliteStore
from bridge.state.sqlite.migrations import Schema, statements
from bridge.state.waiting_rows import WaitingRow, WaitingRows

#: About 50 MB of usage rows: more than a day of one request in each second.
MOST_ROWS = 100_000
#: Seconds for which a worker keeps the rows that it took. It writes them or dies.
TAKEN_FOR = 15.0

SCHEMA = Schema(
    "waiting",
    (
        statements(
            """
            CREATE TABLE waiting (
                place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, row BLOB NOT NULL, taken REAL NOT NULL
            )
            """,
        ),
    ),
)
#: Rows leave in the order in which they came, so the difference is the number, except during a removal.
_COUNT = "SELECT ifnull(max(place) - min(place) + 1, 0) FROM waiting"
_ADD = "INSERT OR IGNORE INTO waiting (id, row, taken) VALUES (?, ?, ?)"
#: A time in the future: the clock was set back after the rows were taken.
_FREE = "SELECT id, row FROM waiting WHERE taken NOT BETWEEN ? AND ? ORDER BY place LIMIT ?"
_SET_TAKEN = "UPDATE waiting SET taken = ? WHERE id = ?"


class SqliteWaitingRows(SqliteStore, WaitingRows):
    def __init__(self, path: Path, most: int = MOST_ROWS, now: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        self._database = Database(path, SCHEMA)
        self._most = most
        self._now = now

    def add(self, row: WaitingRow, held: float = 0.0) -> bool:
        taken = self._now() - TAKEN_FOR + held if held else 0

        def insert(database: sqlite3.Connection) -> bool:
            if _counted(database) >= self._most:
                return False
            database.execute(_ADD, (row.id, orjson.dumps(row.values), taken))
            return True

        return self._database.transaction(insert)

    def take(self, most: int) -> Sequence[WaitingRow]:
        if not self.count():
            return []

        def take(database: sqlite3.Connection) -> list[WaitingRow]:
            now = self._now()
            found = database.execute(_FREE, (now - TAKEN_FOR, now, most)).fetchall()
            database.executemany(_SET_TAKEN, [(now, row_id) for row_id, _ in found])
            return [WaitingRow(row_id, orjson.loads(row)) for row_id, row in found]

        return self._database.transaction(take)

    def give_back(self, rows: Iterable[WaitingRow]) -> None:
        given = [(0, row.id) for row in rows]
        self._database.transaction(lambda database: database.executemany(_SET_TAKEN, given))

    def remove(self, rows: Iterable[WaitingRow]) -> None:
        delete, ids = "DELETE FROM waiting WHERE id = ?", [(row.id,) for row in rows]
        self._database.transaction(lambda database: database.executemany(delete, ids))

    def count(self) -> int:
        return self._database.read(_counted)


def _counted(database: sqlite3.Connection) -> int:
    (number,) = database.execute(_COUNT).fetchone()
    return int(number)
