"""The request cache in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

from bridge.state.postgres.database import Database, PostgresStore
from bridge.state.postgres.ledger import by_the_server
from bridge.state.request_cache_store import WRITES_BETWEEN_TIDYING, CachedEntry, RequestCacheStore
from bridge.state.store import PATIENT

_NOW = "gemini_bridge.moment(%(now)s::float8)"
_FIND = f"""
SELECT data, greatest(0, {_NOW} - made) FROM gemini_bridge.cached_answer
    WHERE scope = %(scope)s AND digest = %(digest)s AND ends > {_NOW}
"""
_KEEP = f"""
INSERT INTO gemini_bridge.cached_answer (scope, digest, made, ends, data)
    VALUES (%(scope)s, %(digest)s, {_NOW}, {_NOW} + %(lifetime)s, %(data)s)
    ON CONFLICT (scope, digest) DO UPDATE SET
        made = excluded.made, ends = excluded.ends, data = excluded.data
"""
_CLEAR = "DELETE FROM gemini_bridge.cached_answer WHERE %(scope)s::text IS NULL OR scope = %(scope)s"
#: Expired entries, and the oldest beyond the limit. One bridge at a time deletes them.
_TIDY = f"""
DELETE FROM gemini_bridge.cached_answer
    WHERE pg_try_advisory_xact_lock(hashtextextended('gemini_bridge.cached_answer', 0))
    AND (scope, digest) IN (
        SELECT scope, digest FROM (
            SELECT scope, digest, ends,
                sum(octet_length(data)) OVER (ORDER BY made DESC, digest) AS up_to
            FROM gemini_bridge.cached_answer
        ) AS sized WHERE up_to > %(most_bytes)s OR ends <= {_NOW}
    )
"""


class PostgresRequestCacheStore(PostgresStore, RequestCacheStore):
    name = "request cache"
    tables = ("cached_answer",)

    def __init__(
        self, database: Database, megabytes: int, now: Callable[[], float | None] = by_the_server
    ) -> None:
        super().__init__(database)
        self._most_bytes = megabytes * 1024 * 1024
        self._now = now
        self._writes = 0

    def find(self, scope: str, digest: bytes) -> CachedEntry | None:
        values = {"scope": scope, "digest": digest, "now": self._now()}
        rows = self._database.run(_FIND, values)
        return CachedEntry(*rows[0]) if rows else None

    def keep(self, scope: str, digest: bytes, data: bytes, lifetime: float) -> None:
        values = {"scope": scope, "digest": digest, "data": data, "lifetime": lifetime, "now": self._now()}
        self._database.run(_KEEP, values)
        self._writes += 1
        if self._writes % WRITES_BETWEEN_TIDYING == 0:
            self._database.run(_TIDY, {"now": self._now(), "most_bytes": self._most_bytes}, patience=PATIENT)

    def clear(self, scope: str | None = None) -> int:
        return self._database.changed(_CLEAR, {"scope": scope})
