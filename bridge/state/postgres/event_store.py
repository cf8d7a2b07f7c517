"""Events of background answers in PostgreSQL."""

from __future__ import annotations

from bridge.state.event_store import MOST_BATCHES, EventBatch, EventStore
from bridge.state.postgres.bounded_store import NOW, BoundedStore

_APPEND = f"""
INSERT INTO gemini_bridge.event_batch (owner, answer, first, length, last, kept, data)
    VALUES (%(owner)s, %(answer)s, %(first)s, %(length)s, %(last)s, {NOW}, %(data)s)
    ON CONFLICT (owner, answer, first) DO UPDATE SET
        length = excluded.length, last = excluded.last, kept = excluded.kept, data = excluded.data
"""
_READ = """
SELECT first, length, data, last FROM gemini_bridge.event_batch
    WHERE owner = %s AND answer = %s AND (first + length > %s OR last) ORDER BY first LIMIT %s
"""
_EXISTS = "SELECT 1 FROM gemini_bridge.event_batch WHERE owner = %s AND answer = %s LIMIT 1"
_FORGET = "DELETE FROM gemini_bridge.event_batch WHERE owner = %s AND answer = %s"


class PostgresEventStore(BoundedStore, EventStore):
    name = "events"
    tables = ("event_batch",)
    id_column = "answer"
    sizes = """
        SELECT answer AS id, max(kept) AS since, sum(octet_length(data)) AS size
        FROM gemini_bridge.event_batch GROUP BY answer
    """
    writes_between_tidying = 500

    def append(self, owner: str, answer_id: str, batch: EventBatch) -> None:
        self._database.run(_APPEND, self._values(owner=owner, answer=answer_id, **batch._asdict()))
        self._tidy_sometimes()

    def exists(self, owner: str, answer_id: str) -> bool:
        return bool(self._database.run(_EXISTS, (owner, answer_id)))

    def read(self, owner: str, answer_id: str, position: int) -> list[EventBatch]:
        rows = self._database.run(_READ, (owner, answer_id, position, MOST_BATCHES))
        return [EventBatch(*row) for row in rows]

    def forget(self, owner: str, answer_id: str) -> None:
        self._database.run(_FORGET, (owner, answer_id))
