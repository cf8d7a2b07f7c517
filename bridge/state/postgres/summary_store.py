"""Summaries of conversations in PostgreSQL."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from bridge.state.postgres.bounded_store import NOW, BoundedStore
from bridge.state.postgres.connection import Connection
from bridge.state.summary_store import (
    FAILED,
    MADE,
    MAKING,
    SECRET_BYTES,
    Claim,
    SummaryRow,
    SummaryStore,
    decided,
)

_FIND = f"""
SELECT digest, text FROM gemini_bridge.summary WHERE owner = %(owner)s AND state = '{MADE}'
    AND digest = ANY (%(digests)s::bytea[])
"""
#: The first claim writes the row, and every claim locks it.
_INSERT = f"""
INSERT INTO gemini_bridge.summary (digest, owner, state, maker, until, failures, since, text)
    VALUES (%(digest)s, %(owner)s, '{MAKING}', %(maker)s, {NOW} + %(seconds)s, 0, {NOW}, '')
    ON CONFLICT (digest) DO NOTHING
"""
_LOCK = f"""
SELECT {NOW}, state, maker, until, failures FROM gemini_bridge.summary WHERE digest = %(digest)s FOR UPDATE
"""
_CLAIM = f"""
UPDATE gemini_bridge.summary
    SET state = '{MAKING}', maker = %(maker)s, until = {NOW} + %(seconds)s, failures = %(failures)s
    WHERE digest = %(digest)s
"""
_KEEP = f"""
INSERT INTO gemini_bridge.summary (digest, owner, state, maker, until, failures, since, text)
    VALUES (%(digest)s, %(owner)s, '{MADE}', '', 0, 0, {NOW}, %(text)s)
    ON CONFLICT (digest) DO UPDATE SET state = excluded.state, maker = '', until = 0, failures = 0,
        since = excluded.since, text = excluded.text
"""
_RELEASE = f"""
UPDATE gemini_bridge.summary
    SET state = '{FAILED}', until = {NOW}, failures = failures + %(failed)s
    WHERE digest = %(digest)s AND owner = %(owner)s AND state = '{MAKING}' AND maker = %(maker)s
"""
_DRAW = "INSERT INTO gemini_bridge.seal (one, secret) VALUES (1, %s) ON CONFLICT (one) DO NOTHING"


class PostgresSummaryStore(BoundedStore, SummaryStore):
    name = "summaries"
    tables = ("summary", "seal")
    id_column = "digest"
    sizes = "SELECT digest AS id, since, octet_length(text) AS size FROM gemini_bridge.summary"

    def find(self, owner: str, digests: Sequence[bytes]) -> Mapping[bytes, str]:
        rows = self._database.run(_FIND, self._values(owner=owner, digests=list(digests)))
        return {bytes(digest): bytes(text).decode() for digest, text in rows}

    def claim(self, owner: str, digest: bytes, maker: str, seconds: float) -> Claim:
        values = self._values(owner=owner, digest=digest, maker=maker, seconds=seconds)

        def work(connection: Connection) -> Claim:
            if connection.execute(_INSERT, values).rowcount:
                return Claim.MINE
            row = connection.execute(_LOCK, values).fetchone()
            if row is None:  # tidied away in between
                return Claim.OTHERS
            claim, failures = decided(SummaryRow(*row[1:]), maker, row[0])
            if claim is Claim.MINE:
                connection.execute(_CLAIM, {**values, "failures": failures})
            return claim

        return self._database.transaction(work)

    def keep(self, owner: str, digest: bytes, text: str) -> None:
        written = text.encode("utf-8", "replace")
        self._database.run(_KEEP, self._values(owner=owner, digest=digest, text=written))
        self._tidy_sometimes()

    def release(self, owner: str, digest: bytes, maker: str, *, failed: bool) -> None:
        values = self._values(owner=owner, digest=digest, maker=maker, failed=int(failed))
        self._database.run(_RELEASE, values)

    def secret(self) -> bytes:
        def work(connection: Connection) -> bytes:
            connection.execute(_DRAW, (secrets.token_bytes(SECRET_BYTES),))
            row = connection.execute("SELECT secret FROM gemini_bridge.seal").fetchone()
            assert row is not None
            return bytes(row[0])

        return self._database.transaction(work)
