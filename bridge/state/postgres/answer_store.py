"""Stored answers in PostgreSQL."""

from __future__ import annotations

from typing import Any

import orjson

from bridge.state.answer_store import LONGEST_CHAIN, AnswerStore, KeptAnswer, Progress, Turn
from bridge.state.postgres.bounded_store import NOW, BoundedStore

_SIZE = "octet_length(question) + octet_length(answer)"  #: known without reading the values
_OWNED = f"owner = %(owner)s AND kept > {NOW} - %(lifetime)s"
_ITEMS = """
INSERT INTO gemini_bridge.item (id, answer)
    SELECT item, changed.id FROM changed, unnest(%(items)s::text[]) AS item ORDER BY item
    ON CONFLICT (id) DO UPDATE SET answer = excluded.answer
"""
_KEEP = f"""
WITH changed AS (
    INSERT INTO gemini_bridge.answer (id, owner, previous, conversation, kept, touched, question, answer)
    VALUES (%(id)s, %(owner)s, %(previous)s, %(conversation)s, {NOW}, {NOW}, %(question)s, %(answer)s)
    ON CONFLICT (id) DO UPDATE SET
        owner = excluded.owner, previous = excluded.previous, conversation = excluded.conversation,
        kept = excluded.kept, touched = excluded.touched, cancelled = false,
        question = excluded.question, answer = excluded.answer
    RETURNING id
) {_ITEMS}
"""
_UPDATE = f"""
WITH changed AS (
    UPDATE gemini_bridge.answer SET touched = {NOW}, answer = %(answer)s
    WHERE id = %(id)s AND owner = %(owner)s AND NOT cancelled RETURNING id
), items AS ({_ITEMS}) SELECT count(*) FROM changed
"""
_FIND = f"""
SELECT id, previous, {NOW} - touched, cancelled, question, answer
    FROM gemini_bridge.answer WHERE id = %(id)s AND {_OWNED}
"""
_PROGRESS = f"SELECT {NOW} - touched, cancelled FROM gemini_bridge.answer WHERE id = %(id)s AND {_OWNED}"
_FIND_SIZE = f"SELECT {_SIZE} FROM gemini_bridge.answer WHERE id = %(id)s AND {_OWNED}"
_BESIDE = f"""
FROM gemini_bridge.answer
    WHERE id = (SELECT answer FROM gemini_bridge.item WHERE id = %(item)s) AND {_OWNED}
"""
#: The turns of a chain, the newest first, without their contents.
_CHAIN = f"""
WITH RECURSIVE turn (id, previous, size, depth) AS (
    SELECT id, previous, {_SIZE}, 1 FROM gemini_bridge.answer WHERE id = %(id)s AND {_OWNED}
    UNION ALL
    SELECT answer.id, answer.previous, {_SIZE}, depth + 1
        FROM turn JOIN gemini_bridge.answer ON answer.id = turn.previous
        WHERE {_OWNED} AND depth < {LONGEST_CHAIN}
) SELECT id, previous, size FROM turn ORDER BY depth
"""
_FORGET = "DELETE FROM gemini_bridge.answer WHERE id = %(id)s AND owner = %(owner)s"
_CANCEL = "UPDATE gemini_bridge.answer SET cancelled = true WHERE id = %(id)s AND owner = %(owner)s"
_TOUCH = f"""
UPDATE gemini_bridge.answer SET touched = {NOW} WHERE id = %(id)s AND owner = %(owner)s AND NOT cancelled
"""


class PostgresAnswerStore(BoundedStore, AnswerStore):
    name = "answers"
    tables = ("answer",)
    sizes = f"SELECT id, kept AS since, {_SIZE} AS size FROM gemini_bridge.answer"

    def keep(
        self,
        owner: str,
        answer: dict[str, Any],
        question: list[dict[str, Any]],
        previous: str | None,
        conversation: str = "",
    ) -> None:
        values = self._values(id=answer["id"], owner=owner, previous=previous, conversation=conversation)
        values |= {"question": orjson.dumps(question), "answer": orjson.dumps(answer)}
        self._database.run(_KEEP, values | {"items": _items(answer)})
        self._tidy_sometimes()

    def update(self, owner: str, answer: dict[str, Any]) -> bool:
        values = self._values(id=answer["id"], owner=owner, answer=orjson.dumps(answer))
        ((changed,),) = self._database.run(_UPDATE, values | {"items": _items(answer)})
        return bool(changed)

    def find(self, owner: str, answer_id: str) -> KeptAnswer | None:
        row = self._row(_FIND, self._values(id=answer_id, owner=owner))
        if row is None:
            return None
        found, previous, idle, cancelled, question, answer = row
        return KeptAnswer(found, previous, idle, cancelled, orjson.loads(question), orjson.loads(answer))

    def progress(self, owner: str, answer_id: str) -> Progress | None:
        row = self._row(_PROGRESS, self._values(id=answer_id, owner=owner))
        return None if row is None else Progress(*row)

    def size(self, owner: str, answer_id: str) -> int | None:
        row = self._row(_FIND_SIZE, self._values(id=answer_id, owner=owner))
        return None if row is None else int(row[0])

    def _size_beside(self, owner: str, item_id: str) -> int | None:
        row = self._row(f"SELECT octet_length(answer) {_BESIDE}", self._values(item=item_id, owner=owner))
        return None if row is None else int(row[0])

    def _answer_beside(self, owner: str, item_id: str) -> bytes | None:
        row = self._row(f"SELECT answer {_BESIDE}", self._values(item=item_id, owner=owner))
        return None if row is None else bytes(row[0])

    def _turns(self, owner: str, answer_id: str) -> list[Turn]:
        return [Turn(*row) for row in self._database.run(_CHAIN, self._values(id=answer_id, owner=owner))]

    def conversation(self, answer_id: str) -> str:
        query = "SELECT conversation FROM gemini_bridge.answer WHERE id = %(id)s"
        row = self._row(query, {"id": answer_id})
        return "" if row is None else str(row[0])

    def forget(self, owner: str, answer_id: str) -> bool:
        return self._database.changed(_FORGET, {"id": answer_id, "owner": owner}) > 0

    def cancel(self, owner: str, answer_id: str) -> bool:
        return self._database.changed(_CANCEL, {"id": answer_id, "owner": owner}) > 0

    def touch(self, owner: str, answer_id: str) -> bool:
        return self._database.changed(_TOUCH, self._values(id=answer_id, owner=owner)) > 0


def _items(answer: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(item["id"] for item in answer.get("output", ()) if "id" in item))
