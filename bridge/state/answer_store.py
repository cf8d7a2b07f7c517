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

_ANSWER = """(
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, previous TEXT, kept REAL NOT NULL, touched REAL NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0, question BLOB NOT NULL, answer BLOB NOT NULL
)"""
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS answer {_ANSWER};
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
_SIZE = "LENGTH(question) + LENGTH(answer)"  #: which the file knows without reading them
#: The turns of a chain, the newest first, without what was said.
_CHAIN = f"""
WITH RECURSIVE turn (id, previous, size, depth) AS (
    SELECT id, previous, {_SIZE}, 1 FROM answer WHERE id = :id AND owner = :owner AND kept > :oldest
    UNION ALL
    SELECT answer.id, answer.previous, {_SIZE}, depth + 1 FROM turn JOIN answer ON answer.id = turn.previous
    WHERE owner = :owner AND kept > :oldest AND depth < {LONGEST_CHAIN}
) SELECT id, previous, size FROM turn ORDER BY depth
"""

#: Before, the table had no row ids. SQLite then reads a whole row, of megabytes, to look at its id.
_HAS_NO_ROWS = "SELECT 1 FROM sqlite_master WHERE name = 'answer' AND sql LIKE '%WITHOUT ROWID%'"
_WITH_ROWS = (
    f"CREATE TABLE answer_with_rows {_ANSWER}",
    "INSERT INTO answer_with_rows SELECT * FROM answer",
    "DROP TABLE answer",
    "ALTER TABLE answer_with_rows RENAME TO answer",
)
#: Milliseconds that one worker waits while another copies the table.
_WAIT_FOR_COPY = 60_000

#: Told how many bytes are about to be loaded; it may refuse by raising.
Admit = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    id: str
    previous: str | None
    touched: float
    cancelled: bool
    question: list[dict[str, Any]]
    answer: dict[str, Any]


class _Answers(Database):
    prepared = 0  # the values may have megabytes

    def _opened(self) -> sqlite3.Connection:
        connection = super()._opened()
        if connection.execute(_HAS_NO_ROWS).fetchone():
            waits = connection.execute("PRAGMA busy_timeout").fetchone()[0]
            connection.execute(f"PRAGMA busy_timeout = {_WAIT_FOR_COPY}")
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                if connection.execute(_HAS_NO_ROWS).fetchone():  # another worker may have been quicker
                    for statement in _WITH_ROWS:
                        connection.execute(statement)
            connection.executescript(self._schema)  # the indexes went with the table
            connection.execute(f"PRAGMA busy_timeout = {waits}")
        return connection


class AnswerStore:
    def __init__(self, path: Path, days: float, megabytes: int, now: Callable[[], float] = time.time) -> None:
        self._database = _Answers(path, _SCHEMA)
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
        row = self._row(query, (answer_id, owner, self._oldest()))
        return None if row is None else _kept(row)

    def size(self, owner: str, answer_id: str) -> int | None:
        """The bytes of a kept answer and its question; None if there is no such answer."""
        query = f"SELECT {_SIZE} FROM answer WHERE id = ? AND owner = ? AND kept > ?"
        row = self._row(query, (answer_id, owner, self._oldest()))
        return None if row is None else int(row[0])

    def items_beside(self, owner: str, item_id: str, admit: Admit) -> list[dict[str, Any]]:
        """All items of the stored answer of this owner's that has this one."""
        among = "id = (SELECT answer FROM item WHERE id = ?) AND owner = ? AND kept > ?"
        place = (item_id, owner, self._oldest())
        size = self._row(f"SELECT LENGTH(answer) FROM answer WHERE {among}", place)
        if size is None:
            return []
        admit(size[0])
        row = self._row(f"SELECT answer FROM answer WHERE {among}", place)
        items: list[dict[str, Any]] = [] if row is None else orjson.loads(row[0])["output"]
        return items

    def chain(self, owner: str, answer_id: str, admit: Admit) -> list[KeptAnswer] | None:
        """This turn and those it goes on from, the oldest first; None if one of them is gone. Each is read
        and parsed once, after all of them were admitted."""
        values = {"id": answer_id, "owner": owner, "oldest": self._oldest()}
        rows = self._database.read(lambda database: database.execute(_CHAIN, values).fetchall())
        gone = not rows or (rows[-1][1] is not None and len(rows) < LONGEST_CHAIN)
        if gone:
            return None
        admit(sum(size for _, _, size in rows))
        turns = [self.find(owner, found) for found, _, _ in reversed(rows)]
        whole = [turn for turn in turns if turn is not None]
        return whole if len(whole) == len(turns) else None

    def _oldest(self) -> float:
        return self.now() - self._lifetime

    def _row(self, query: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._database.read(
            lambda database: database.execute(query, values).fetchone()
        )
        return row

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
        database.execute("DELETE FROM answer WHERE kept <= ?", (self._oldest(),))
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
