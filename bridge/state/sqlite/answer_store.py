"""Stored answers in an SQLite file."""

from __future__ import annotations

import sqlite3
from typing import Any

import orjson

from bridge.state.answer_store import LONGEST_CHAIN, AnswerStore, KeptAnswer, Progress, Turn
from bridge.state.sqlite.bounded_store import BoundedStore
from bridge.state.sqlite.migrations import Schema, statements

_ANSWER_COLUMNS = """(
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, previous TEXT, kept REAL NOT NULL, touched REAL NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0, question BLOB NOT NULL, answer BLOB NOT NULL
)"""
_ANSWER_INDEX = "CREATE INDEX IF NOT EXISTS answer_kept ON answer (kept)"
_ANSWER_TRIGGERS = (
    """
    CREATE TRIGGER IF NOT EXISTS answer_gone AFTER DELETE ON answer BEGIN
        DELETE FROM item WHERE answer = OLD.id;
    END
    """,
    """
    CREATE TRIGGER IF NOT EXISTS answer_left_conversation AFTER DELETE ON answer BEGIN
        DELETE FROM conversation WHERE answer = OLD.id;
    END
    """,
)
_HAS_NO_ROW_IDS = "SELECT 1 FROM sqlite_master WHERE name = 'answer' AND sql LIKE '%WITHOUT ROWID%'"
_ADD_ROW_IDS = statements(
    f"CREATE TABLE answer_with_rows {_ANSWER_COLUMNS}",
    "INSERT INTO answer_with_rows (id, owner, previous, kept, touched, cancelled, question, answer)"
    " SELECT id, owner, previous, kept, touched, cancelled, question, answer FROM answer",
    "DROP TABLE answer",  # with its index and its triggers
    "ALTER TABLE answer_with_rows RENAME TO answer",
    _ANSWER_INDEX,
    *_ANSWER_TRIGGERS,
)


def _with_row_ids(database: sqlite3.Connection) -> None:
    """For files from before 0.1.0. Without row ids SQLite reads a whole row, of megabytes, to compare its
    id."""
    if database.execute(_HAS_NO_ROW_IDS).fetchone():
        _ADD_ROW_IDS(database)


SCHEMA = Schema(
    "conversation",
    (
        statements(
            f"CREATE TABLE IF NOT EXISTS answer {_ANSWER_COLUMNS}",
            _ANSWER_INDEX,
            "CREATE TABLE IF NOT EXISTS item (id TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID",
            "CREATE INDEX IF NOT EXISTS item_answer ON item (answer)",
            "CREATE TABLE IF NOT EXISTS conversation"
            " (answer TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID",
            *_ANSWER_TRIGGERS,
        ),
        _with_row_ids,
    ),
    longest_wait=60.0,
)

_SIZE = "LENGTH(question) + LENGTH(answer)"  #: SQLite knows the lengths without reading the values
#: The turns of a chain, the newest first, without their contents.
_CHAIN = f"""
WITH RECURSIVE turn (id, previous, size, depth) AS (
    SELECT id, previous, {_SIZE}, 1 FROM answer WHERE id = :id AND owner = :owner AND kept > :oldest
    UNION ALL
    SELECT answer.id, answer.previous, {_SIZE}, depth + 1 FROM turn JOIN answer ON answer.id = turn.previous
    WHERE owner = :owner AND kept > :oldest AND depth < {LONGEST_CHAIN}
) SELECT id, previous, size FROM turn ORDER BY depth
"""
_BESIDE = "FROM answer WHERE id = (SELECT answer FROM item WHERE id = ?) AND owner = ? AND kept > ?"
_KEEP = (
    "INSERT OR REPLACE INTO answer (id, owner, previous, kept, touched, cancelled, question, answer)"
    " VALUES (?, ?, ?, ?, ?, 0, ?, ?)"
)
#: The conversation has a table of its own, so that version 0.1.0 can still write to the file.
_KEEP_CONVERSATION = "INSERT OR REPLACE INTO conversation (answer, id) VALUES (?, ?)"
_KEEP_ITEM = "INSERT OR REPLACE INTO item (id, answer) VALUES (?, ?)"


class SqliteAnswerStore(BoundedStore, AnswerStore):
    schema = SCHEMA
    table = "answer"
    sizes = f"SELECT id, kept AS since, {_SIZE} AS size FROM answer"

    def keep(
        self,
        owner: str,
        answer: dict[str, Any],
        question: list[dict[str, Any]],
        previous: str | None,
        conversation: str = "",
    ) -> None:
        now = self._now()
        row = (answer["id"], owner, previous, now, now, orjson.dumps(question), orjson.dumps(answer))

        def insert(database: sqlite3.Connection) -> None:
            database.execute(_KEEP, row)
            _keep_items(database, answer)
            database.execute(_KEEP_CONVERSATION, (answer["id"], conversation))
            self._tidy_sometimes(database)

        self._database.transaction(insert)

    def update(self, owner: str, answer: dict[str, Any]) -> bool:
        query = "UPDATE answer SET touched = ?, answer = ? WHERE id = ? AND owner = ? AND cancelled = 0"
        row = (self._now(), orjson.dumps(answer), answer["id"], owner)

        def update(database: sqlite3.Connection) -> bool:
            wanted = database.execute(query, row).rowcount > 0
            if wanted:
                _keep_items(database, answer)
            return wanted

        return self._database.transaction(update)

    def find(self, owner: str, answer_id: str) -> KeptAnswer | None:
        columns = "id, previous, touched, cancelled, question, answer"
        query = f"SELECT {columns} FROM answer WHERE id = ? AND owner = ? AND kept > ?"
        row = self._row(query, (answer_id, owner, self._oldest()))
        return None if row is None else self._kept(row)

    def progress(self, owner: str, answer_id: str) -> Progress | None:
        query = "SELECT touched, cancelled FROM answer WHERE id = ? AND owner = ? AND kept > ?"
        row = self._row(query, (answer_id, owner, self._oldest()))
        return None if row is None else Progress(self._now() - row[0], bool(row[1]))

    def size(self, owner: str, answer_id: str) -> int | None:
        query = f"SELECT {_SIZE} FROM answer WHERE id = ? AND owner = ? AND kept > ?"
        row = self._row(query, (answer_id, owner, self._oldest()))
        return None if row is None else int(row[0])

    def _size_beside(self, owner: str, item_id: str) -> int | None:
        row = self._row(f"SELECT LENGTH(answer) {_BESIDE}", (item_id, owner, self._oldest()))
        return None if row is None else int(row[0])

    def _answer_beside(self, owner: str, item_id: str) -> bytes | None:
        row = self._row(f"SELECT answer {_BESIDE}", (item_id, owner, self._oldest()))
        return None if row is None else bytes(row[0])

    def _turns(self, owner: str, answer_id: str) -> list[Turn]:
        values = {"id": answer_id, "owner": owner, "oldest": self._oldest()}
        rows = self._database.read(lambda database: database.execute(_CHAIN, values).fetchall())
        return [Turn(*row) for row in rows]

    def conversation(self, answer_id: str) -> str:
        row = self._row("SELECT id FROM conversation WHERE answer = ?", (answer_id,))
        return "" if row is None else str(row[0])

    def forget(self, owner: str, answer_id: str) -> bool:
        return self._changed("DELETE FROM answer WHERE id = ? AND owner = ?", (answer_id, owner))

    def cancel(self, owner: str, answer_id: str) -> bool:
        return self._changed("UPDATE answer SET cancelled = 1 WHERE id = ? AND owner = ?", (answer_id, owner))

    def touch(self, owner: str, answer_id: str) -> bool:
        query = "UPDATE answer SET touched = ? WHERE id = ? AND owner = ? AND cancelled = 0"
        return self._changed(query, (self._now(), answer_id, owner))

    def _kept(self, row: tuple[Any, ...]) -> KeptAnswer:
        answer_id, previous, touched, cancelled, question, answer = row
        idle = self._now() - touched
        return KeptAnswer(
            answer_id, previous, idle, bool(cancelled), orjson.loads(question), orjson.loads(answer)
        )


def _keep_items(database: sqlite3.Connection, answer: dict[str, Any]) -> None:
    items = [(item["id"], answer["id"]) for item in answer.get("output", ()) if "id" in item]
    database.executemany(_KEEP_ITEM, items)
