"""Events of background answers in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

from bridge.state.event_store import MOST_BATCHES, EventBatch, EventStore
from bridge.state.postgres.database import Database, PostgresStore
from bridge.state.postgres.ledger import by_the_server
from bridge.state.store import PATIENT

#: Tidying looks at all rows, so it runs once in this many writes.
WRITES_BETWEEN_TIDYING = 500

_NOW = "gemini_bridge.moment(%(now)s::float8)"
_APPEND = f"""
INSERT INTO gemini_bridge.event_batch (owner, answer, first, length, last, kept, data)
    VALUES (%(owner)s, %(answer)s, %(first)s, %(length)s, %(last)s, {_NOW}, %(data)s)
    ON CONFLICT (owner, answer, first) DO UPDATE SET
        length = excluded.length, last = excluded.last, kept = excluded.kept, data = excluded.data
"""
_READ = """
SELECT first, length, data, last FROM gemini_bridge.event_batch
    WHERE owner = %s AND answer = %s AND (first + length > %s OR last) ORDER BY first LIMIT %s
"""
_EXISTS = "SELECT 1 FROM gemini_bridge.event_batch WHERE owner = %s AND answer = %s LIMIT 1"
_FORGET = "DELETE FROM gemini_bridge.event_batch WHERE owner = %s AND answer = %s"
#: The events of old answers, and of the oldest beyond the limit. One bridge at a time deletes them.
_TIDY = f"""
DELETE FROM gemini_bridge.event_batch
    WHERE pg_try_advisory_xact_lock(hashtextextended('gemini_bridge.event_batch', 0)) AND answer IN (
        SELECT answer FROM (
            SELECT answer, newest, sum(size) OVER (ORDER BY newest DESC, answer) AS up_to FROM (
                SELECT answer, sum(octet_length(data)) AS size, max(kept) AS newest
                FROM gemini_bridge.event_batch GROUP BY answer
            ) AS whole
        ) AS sized WHERE up_to > %(most_bytes)s OR newest <= {_NOW} - %(lifetime)s
    )
"""


class PostgresEventStore(PostgresStore, EventStore):
    name = "events"
    tables = ("event_batch",)

    def __init__(
        self,
        database: Database,
        days: float,
        megabytes: int,
        now: Callable[[], float | None] = by_the_server,
    ) -> None:
        super().__init__(database)
        self._lifetime = days * 24 * 3600
        self._most_bytes = megabytes * 1024 * 1024
        self._now = now
        self._writes = 0

    def append(self, owner: str, answer_id: str, batch: EventBatch) -> None:
        values = {"owner": owner, "answer": answer_id, "now": self._now(), **batch._asdict()}
        self._database.run(_APPEND, values)
        self._writes += 1
        if self._writes % WRITES_BETWEEN_TIDYING == 0:
            self._tidy()

    def exists(self, owner: str, answer_id: str) -> bool:
        return bool(self._database.run(_EXISTS, (owner, answer_id)))

    def read(self, owner: str, answer_id: str, position: int) -> list[EventBatch]:
        rows = self._database.run(_READ, (owner, answer_id, position, MOST_BATCHES))
        return [EventBatch(*row) for row in rows]

    def forget(self, owner: str, answer_id: str) -> None:
        self._database.run(_FORGET, (owner, answer_id))

    def _tidy(self) -> None:
        values = {"now": self._now(), "lifetime": self._lifetime, "most_bytes": self._most_bytes}
        self._database.run(_TIDY, values, patience=PATIENT)
