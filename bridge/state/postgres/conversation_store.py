"""Conversations in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from bridge.state.conversation_store import ConversationStore, KeptConversation
from bridge.state.postgres.bounded_store import NOW, BoundedStore

_OWNED = f"id = %(id)s AND owner = %(owner)s AND used > {NOW} - %(lifetime)s"
_THE_OWNED = f"SELECT id FROM gemini_bridge.conversation WHERE {_OWNED}"
#: The lock of the changed row makes concurrent requests add their items one after the other.
_ADD_ITEMS = """
INSERT INTO gemini_bridge.conversation_item (conversation, id, item)
    SELECT changed.id, each.id, each.item
    FROM changed, unnest(%(ids)s::bytea[], %(items)s::bytea[]) WITH ORDINALITY AS each (id, item, place)
    ORDER BY each.place
    ON CONFLICT (conversation, id) DO NOTHING
"""
_CREATE = f"""
WITH changed AS (
    INSERT INTO gemini_bridge.conversation (id, owner, created, used, metadata)
    VALUES (%(id)s, %(owner)s, %(created)s, {NOW}, %(metadata)s) RETURNING id
) {_ADD_ITEMS}
"""
_APPEND = f"""
WITH changed AS (
    UPDATE gemini_bridge.conversation SET used = {NOW} WHERE {_OWNED} RETURNING id
), items AS ({_ADD_ITEMS}) SELECT count(*) FROM changed
"""
_FIND = f"SELECT id, created, metadata FROM gemini_bridge.conversation WHERE {_OWNED}"
_UPDATE = f"UPDATE gemini_bridge.conversation SET metadata = %(metadata)s, used = {NOW} WHERE {_OWNED}"
#: The bytes of the items of the conversation `talk`, known without reading them.
_BYTES = """
(SELECT coalesce(sum(octet_length(item)), 0)
    FROM gemini_bridge.conversation_item WHERE conversation = talk.id)
"""
_SIZE = f"SELECT {_BYTES} FROM gemini_bridge.conversation AS talk WHERE {_OWNED}"
_ITEMS = f"""
SELECT item FROM gemini_bridge.conversation_item WHERE conversation = ({_THE_OWNED}) ORDER BY position
"""
_FORGET_ITEM = f"""
DELETE FROM gemini_bridge.conversation_item AS old WHERE conversation = ({_THE_OWNED}) AND old.id = %(item)s
"""
_FORGET = f"DELETE FROM gemini_bridge.conversation WHERE {_OWNED}"


class PostgresConversationStore(BoundedStore, ConversationStore):
    name = "conversations"
    tables = ("conversation",)
    sizes = f"""
        SELECT id, used AS since, octet_length(metadata) + {_BYTES} AS size
        FROM gemini_bridge.conversation AS talk
    """

    def create(self, owner: str, conversation: KeptConversation, items: Sequence[dict[str, Any]]) -> None:
        values = self._owned(owner, conversation.id) | _columns(items)
        values |= {"created": conversation.created, "metadata": orjson.dumps(conversation.metadata)}
        self._database.run(_CREATE, values)
        self._tidy_sometimes()

    def find(self, owner: str, conversation_id: str) -> KeptConversation | None:
        rows = self._database.run(_FIND, self._owned(owner, conversation_id))
        found = (KeptConversation(row[0], row[1], orjson.loads(row[2])) for row in rows)
        return next(found, None)

    def update(self, owner: str, conversation_id: str, metadata: dict[str, str]) -> bool:
        values = self._owned(owner, conversation_id) | {"metadata": orjson.dumps(metadata)}
        return self._database.changed(_UPDATE, values) > 0

    def append(self, owner: str, conversation_id: str, items: Sequence[dict[str, Any]]) -> bool:
        values = self._owned(owner, conversation_id) | _columns(items)
        ((changed,),) = self._database.run(_APPEND, values)
        if changed:
            self._tidy_sometimes()
        return bool(changed)

    def size(self, owner: str, conversation_id: str) -> int | None:
        rows = self._database.run(_SIZE, self._owned(owner, conversation_id))
        return next((int(size) for (size,) in rows), None)

    def items(self, owner: str, conversation_id: str) -> list[dict[str, Any]]:
        rows = self._database.run(_ITEMS, self._owned(owner, conversation_id))
        return [orjson.loads(item) for (item,) in rows]

    def forget_item(self, owner: str, conversation_id: str, item_id: str) -> bool:
        values = self._owned(owner, conversation_id) | {"item": item_id.encode()}
        return self._database.changed(_FORGET_ITEM, values) > 0

    def forget(self, owner: str, conversation_id: str) -> bool:
        return self._database.changed(_FORGET, self._owned(owner, conversation_id)) > 0

    def _owned(self, owner: str, conversation_id: str) -> dict[str, Any]:
        return self._values(id=conversation_id, owner=owner)


def _columns(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    ids, contents = [item["id"].encode() for item in items], [orjson.dumps(item) for item in items]
    return {"ids": ids, "items": contents}
