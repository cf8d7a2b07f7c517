"""Answers that clients may ask for again: kept by id and owner, for a time, within a size.

A row holds one turn: what was asked, what was answered, and which turn it went on from. The store may refuse
(a full disk, a locked file); its errors are for the caller to weigh.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bridge.state.database import Database

#: A chain this long has outgrown every context window.
LONGEST_CHAIN = 1000
#: Tidying looks at all rows; once in so many writes is often enough.
WRITES_BETWEEN_TIDYING = 50

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answer (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, previous TEXT, kept REAL NOT NULL, touched REAL NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0, question BLOB NOT NULL, answer BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answer_kept ON answer (kept);
CREATE TABLE IF NOT EXISTS item (id TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS item_answer ON item (answer);
CREATE TRIGGER IF NOT EXISTS answer_gone AFTER DELETE ON answer BEGIN
    DELETE FROM item WHERE answer = OLD.id;
END;
CREATE TABLE IF NOT EXISTS conversation (answer TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS answer_left_conversation AFTER DELETE ON answer BEGIN
    DELETE FROM conversation WHERE answer = OLD.id;
END;
"""
_COLUMNS = "id, previous, touched, cancelled, question, answer"


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    id: str
    previous: str | None
    touched: float
    cancelled: bool
    question: list[dict[str, Any]]
    answer: dict[str, Any]


class AnswerStore:
    def __init__(self, path: Path, days: float, megabytes: int, now: Callable[[], float] = time.time) -> None:
        self._database = Database(path, _SCHEMA)
        self._lifetime = days * 24 * 3600
        self._most_bytes = megabytes * 1024 * 1024
        self.now = now
        self._writes = 0

    def keep(
        self,
        owner: str,
        answer: dict[str, Any],
        question: list[dict[str, Any]],
        previous: str | None,
        conversation: str = "",
    ) -> None:
        row = (
            answer["id"],
            owner,
            previous,
            self.now(),
            self.now(),
            orjson.dumps(question),
            orjson.dumps(answer),
        )

        def insert(database: sqlite3.Connection) -> None:
            database.execute("INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?, ?, 0, ?, ?)", row)
            _keep_items(database, answer)
            # A table of its own: the version before this one cannot write to one with another column.
            belongs = (answer["id"], conversation)
            database.execute("INSERT OR REPLACE INTO conversation VALUES (?, ?)", belongs)
            self._writes += 1
            if self._writes % WRITES_BETWEEN_TIDYING == 0:
                self._tidy(database)

        self._database.transaction(insert)

    def update(self, owner: str, answer: dict[str, Any]) -> bool:
        """A kept answer as it stands now; false if it was cancelled or forgotten, and then it stays so."""
        query = "UPDATE answer SET touched = ?, answer = ? WHERE id = ? AND owner = ? AND cancelled = 0"
        row = (self.now(), orjson.dumps(answer), answer["id"], owner)

        def update(database: sqlite3.Connection) -> bool:
            wanted = database.execute(query, row).rowcount > 0
            if wanted:
                _keep_items(database, answer)
            return wanted

        return self._database.transaction(update)

    def find(self, owner: str, answer_id: str) -> KeptAnswer | None:
        query = f"SELECT {_COLUMNS} FROM answer WHERE id = ? AND owner = ? AND kept > ?"
        oldest = self.now() - self._lifetime
        row = self._database.read(
            lambda database: database.execute(query, (answer_id, owner, oldest)).fetchone()
        )
        return None if row is None else _kept(row)

    def item(self, owner: str, item_id: str) -> dict[str, Any] | None:
        """An item of some stored answer of this owner's."""
        query = "SELECT answer FROM item WHERE id = ?"
        row = self._database.read(lambda database: database.execute(query, (item_id,)).fetchone())
        kept = None if row is None else self.find(owner, row[0])
        items = [] if kept is None else kept.answer["output"]
        return next((item for item in items if item.get("id") == item_id), None)

    def chain(self, owner: str, answer_id: str) -> list[KeptAnswer] | None:
        """This turn and those it goes on from, the oldest first; None if one of them is gone."""
        turns: list[KeptAnswer] = []
        wanted: str | None = answer_id
        while wanted is not None and len(turns) < LONGEST_CHAIN:
            turn = self.find(owner, wanted)
            if turn is None:
                return None
            turns.append(turn)
            wanted = turn.previous
        return turns[::-1]

    def conversation(self, answer_id: str) -> str:
        """What the answer belongs to, if that was known when it was kept."""
        query = "SELECT id FROM conversation WHERE answer = ?"
        row = self._database.read(lambda database: database.execute(query, (answer_id,)).fetchone())
        return "" if row is None else str(row[0])

    def forget(self, owner: str, answer_id: str) -> bool:
        query = "DELETE FROM answer WHERE id = ? AND owner = ?"
        return self._changed(query, (answer_id, owner))

    def cancel(self, owner: str, answer_id: str) -> bool:
        return self._changed("UPDATE answer SET cancelled = 1 WHERE id = ? AND owner = ?", (answer_id, owner))

    def touch(self, owner: str, answer_id: str) -> bool:
        """Say that an answer is still being worked on; false if nobody waits for it any more."""
        query = "UPDATE answer SET touched = ? WHERE id = ? AND owner = ? AND cancelled = 0"
        return self._changed(query, (self.now(), answer_id, owner))

    def _changed(self, query: str, values: tuple[Any, ...]) -> bool:
        return self._database.transaction(lambda database: database.execute(query, values).rowcount > 0)

    def _tidy(self, database: sqlite3.Connection) -> None:
        database.execute("DELETE FROM answer WHERE kept <= ?", (self.now() - self._lifetime,))
        size = "SUM(LENGTH(question) + LENGTH(answer)) OVER (ORDER BY kept DESC, id)"
        sizes = f"SELECT id, {size} AS up_to FROM answer"
        database.execute(
            f"DELETE FROM answer WHERE id IN (SELECT id FROM ({sizes}) WHERE up_to > ?)", (self._most_bytes,)
        )


def _keep_items(database: sqlite3.Connection, answer: dict[str, Any]) -> None:
    items = [(item["id"], answer["id"]) for item in answer.get("output", ()) if "id" in item]
    database.executemany("INSERT OR REPLACE INTO item VALUES (?, ?)", items)


def _kept(row: tuple[Any, ...]) -> KeptAnswer:
    answer_id, previous, touched, cancelled, question, answer = row
    return KeptAnswer(
        answer_id, previous, touched, bool(cancelled), orjson.loads(question), orjson.loads(answer)
    )
