"""Conversations in an SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from bridge.state.conversation_store import ConversationStore, KeptConversation
from bridge.state.sqlite.database import Database, SqliteStore
from bridge.state.sqlite.migrations import Schema, statements

#: Tidying looks at all rows, so it runs once in this many writes.
WRITES_BETWEEN_TIDYING = 50

SCHEMA = Schema(
    "conversation_item",
    (
        statements(
            """
            CREATE TABLE conversation (
                id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL, used REAL NOT NULL,
                metadata BLOB NOT NULL
            )
            """,
            """
            CREATE TABLE conversation_item (
                position INTEGER PRIMARY KEY AUTOINCREMENT, conversation TEXT NOT NULL, id TEXT NOT NULL,
                item BLOB NOT NULL, UNIQUE (conversation, id)
            )
            """,
            """
            CREATE TRIGGER conversation_gone AFTER DELETE ON conversation BEGIN
                DELETE FROM conversation_item WHERE conversation = OLD.id;
            END
            """,
        ),
    ),
)

_CREATE = "INSERT INTO conversation (id, owner, created, used, metadata) VALUES (?, ?, ?, ?, ?)"
_OWNED = "id = ? AND owner = ? AND used > ?"
_APPEND = "INSERT OR IGNORE INTO conversation_item (conversation, id, item) VALUES (?, ?, ?)"
_SIZE = f"""
SELECT (SELECT COALESCE(SUM(LENGTH(item)), 0) FROM conversation_item WHERE conversation = conversation.id)
FROM conversation WHERE {_OWNED}
"""
_ITEMS = f"""
SELECT item FROM conversation_item
WHERE conversation = (SELECT id FROM conversation WHERE {_OWNED}) ORDER BY position
"""
_FORGET_ITEM = f"""
DELETE FROM conversation_item
WHERE conversation = (SELECT id FROM conversation WHERE {_OWNED}) AND conversation_item.id = ?
"""
_FORGET_EXCESS = """
DELETE FROM conversation WHERE id IN (
    SELECT id FROM (
        SELECT id, SUM(size) OVER (ORDER BY used DESC, id) AS up_to FROM (
            SELECT id, used, LENGTH(metadata) + (
                SELECT COALESCE(SUM(LENGTH(item)), 0) FROM conversation_item
                WHERE conversation = conversation.id
            ) AS size FROM conversation
        )
    ) WHERE up_to > ?
)
"""


class SqliteConversationStore(SqliteStore, ConversationStore):
    def __init__(self, path: Path, days: float, megabytes: int, now: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        # A cached statement keeps its last values, which may be megabytes.
        self._database = Database(path, SCHEMA, cached_statements=0)
        self._lifetime = days * 24 * 3600
        self._most_bytes = megabytes * 1024 * 1024
        self._now = now
        self._writes = 0

    def create(self, owner: str, conversation: KeptConversation, items: Sequence[dict[str, Any]]) -> None:
        metadata = orjson.dumps(conversation.metadata)
        row = (conversation.id, owner, conversation.created, self._now(), metadata)

        def insert(database: sqlite3.Connection) -> None:
            database.execute(_CREATE, row)
            self._insert_items(database, conversation.id, items)

        self._database.transaction(insert)

    def find(self, owner: str, conversation_id: str) -> KeptConversation | None:
        query = f"SELECT id, created, metadata FROM conversation WHERE {_OWNED}"
        row = self._row(query, self._owned(owner, conversation_id))
        return None if row is None else KeptConversation(row[0], row[1], orjson.loads(row[2]))

    def update(self, owner: str, conversation_id: str, metadata: dict[str, str]) -> bool:
        query = f"UPDATE conversation SET metadata = ?, used = ? WHERE {_OWNED}"
        values = (orjson.dumps(metadata), self._now(), *self._owned(owner, conversation_id))
        return self._changed(query, values)

    def append(self, owner: str, conversation_id: str, items: Sequence[dict[str, Any]]) -> bool:
        query = f"UPDATE conversation SET used = ? WHERE {_OWNED}"
        values = (self._now(), *self._owned(owner, conversation_id))

        def append(database: sqlite3.Connection) -> bool:
            found = database.execute(query, values).rowcount > 0
            if found:
                self._insert_items(database, conversation_id, items)
            return found

        return self._database.transaction(append)

    def size(self, owner: str, conversation_id: str) -> int | None:
        row = self._row(_SIZE, self._owned(owner, conversation_id))
        return None if row is None else int(row[0])

    def items(self, owner: str, conversation_id: str) -> list[dict[str, Any]]:
        values = self._owned(owner, conversation_id)
        rows = self._database.read(lambda database: database.execute(_ITEMS, values).fetchall())
        return [orjson.loads(item) for (item,) in rows]

    def forget_item(self, owner: str, conversation_id: str, item_id: str) -> bool:
        return self._changed(_FORGET_ITEM, (*self._owned(owner, conversation_id), item_id))

    def forget(self, owner: str, conversation_id: str) -> bool:
        query = f"DELETE FROM conversation WHERE {_OWNED}"
        return self._changed(query, self._owned(owner, conversation_id))

    def _owned(self, owner: str, conversation_id: str) -> tuple[str, str, float]:
        return conversation_id, owner, self._now() - self._lifetime

    def _row(self, query: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._database.read(
            lambda database: database.execute(query, values).fetchone()
        )
        return row

    def _changed(self, query: str, values: tuple[Any, ...]) -> bool:
        return self._database.transaction(lambda database: database.execute(query, values).rowcount > 0)

    def _insert_items(
        self, database: sqlite3.Connection, conversation_id: str, items: Sequence[dict[str, Any]]
    ) -> None:
        database.executemany(_APPEND, [(conversation_id, item["id"], orjson.dumps(item)) for item in items])
        self._writes += 1
        if self._writes % WRITES_BETWEEN_TIDYING == 0:
            database.execute("DELETE FROM conversation WHERE used <= ?", (self._now() - self._lifetime,))
            database.execute(_FORGET_EXCESS, (self._most_bytes,))
