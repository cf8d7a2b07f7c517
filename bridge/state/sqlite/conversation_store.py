"""Conversations in an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import orjson

from bridge.state.conversation_store import ConversationStore, KeptConversation
from bridge.state.sqlite.bounded_store import BoundedStore
from bridge.state.sqlite.migrations import Schema, statements

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
#: The bytes of the items of a conversation.
_BYTES = """
(SELECT COALESCE(SUM(LENGTH(item)), 0) FROM conversation_item WHERE conversation = conversation.id)
"""
_SIZE = f"SELECT {_BYTES} FROM conversation WHERE {_OWNED}"
_ITEMS = f"""
SELECT item FROM conversation_item
WHERE conversation = (SELECT id FROM conversation WHERE {_OWNED}) ORDER BY position
"""
_FORGET_ITEM = f"""
DELETE FROM conversation_item
WHERE conversation = (SELECT id FROM conversation WHERE {_OWNED}) AND conversation_item.id = ?
"""


class SqliteConversationStore(BoundedStore, ConversationStore):
    schema = SCHEMA
    table = "conversation"
    sizes = f"SELECT id, used AS since, LENGTH(metadata) + {_BYTES} AS size FROM conversation"

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
        return conversation_id, owner, self._oldest()

    def _insert_items(
        self, database: sqlite3.Connection, conversation_id: str, items: Sequence[dict[str, Any]]
    ) -> None:
        database.executemany(_APPEND, [(conversation_id, item["id"], orjson.dumps(item)) for item in items])
        self._tidy_sometimes(database)
