"""Thought signatures in PostgreSQL, limited in age and number."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from bridge.state.absent_ids import AbsentIds
from bridge.state.errors import StorageError
from bridge.state.postgres.database import Database, PostgresStore
from bridge.state.postgres.ledger import by_the_server
from bridge.state.signature_store import SignatureStore

LIFETIME = 7 * 24 * 3600
MOST_ROWS = 1_000_000
WRITES_BETWEEN_TIDYING = 500

_KEEP = """
INSERT INTO gemini_bridge.signature (owner, family, call, signature, kept)
    SELECT %s, %s, each.call, each.signature, gemini_bridge.moment(%s::float8)
    FROM unnest(%s::bytea[], %s::bytea[]) AS each (call, signature) ORDER BY each.call
    ON CONFLICT (owner, family, call) DO UPDATE SET signature = excluded.signature, kept = excluded.kept
"""
_FIND = (
    "SELECT call, signature FROM gemini_bridge.signature"
    " WHERE owner = %s AND family = %s AND call = ANY (%s::bytea[])"
)
#: Old rows, and the oldest beyond the limit. One bridge at a time deletes them.
_TIDY = """
DELETE FROM gemini_bridge.signature
    WHERE pg_try_advisory_xact_lock(hashtextextended('gemini_bridge.signature', 0)) AND kept < greatest(
        gemini_bridge.moment(%s::float8) - %s,
        (SELECT kept FROM gemini_bridge.signature ORDER BY kept DESC OFFSET %s LIMIT 1)
    )
"""

log = logging.getLogger(__name__)


class PostgresSignatureStore(PostgresStore, SignatureStore):
    name = "signatures"
    tables = ("signature",)

    def __init__(self, database: Database, now: Callable[[], float] | None = None) -> None:
        super().__init__(database)
        self._server_now: Callable[[], float | None] = now or by_the_server
        self._absent = AbsentIds(now or time.time)
        self._writes = 0

    def keep(self, owner: str, family: str, signatures: Mapping[str, str]) -> None:
        calls, values = map(_bytes, signatures), map(_bytes, signatures.values())
        now = self._server_now()
        try:
            self._database.run(_KEEP, (_bytes(owner), _bytes(family), now, list(calls), list(values)))
            self._writes += 1
            if self._writes % WRITES_BETWEEN_TIDYING == 1:
                self._database.run(_TIDY, (now, LIFETIME, MOST_ROWS))
        except StorageError as error:
            self._warn(error)
        self._absent.forget(owner, family, signatures)

    def find(self, owner: str, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        wanted = self._absent.wanted(owner, family, call_ids)
        if not wanted:
            return {}
        try:
            rows = self._database.run(_FIND, (_bytes(owner), _bytes(family), list(map(_bytes, wanted))))
        except StorageError as error:
            self._warn(error)
            return {}
        found = {_text(call): _text(signature) for call, signature in rows}
        self._absent.add(owner, family, (call_id for call_id in wanted if call_id not in found))
        return found

    def _warn(self, error: StorageError) -> None:
        log.warning("signature store not usable", extra={"reason": error.reason})


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")
