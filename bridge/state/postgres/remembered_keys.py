"""The keys in PostgreSQL, with a copy in the state folder: a worker that starts while the database is away
serves the clients that its machine knew."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from bridge.state.errors import StorageError
from bridge.state.key_store import Key, KeySecret
from bridge.state.postgres.database import Database
from bridge.state.postgres.key_store import PostgresKeyStore
from bridge.state.private_file import write_private
from bridge.state.rules_text import rules_from_text, rules_to_text

log = logging.getLogger(__name__)

#: With the keys' digests, as in the database. It holds no secret.
COPY = "keys.known"


class RememberingKeyStore(PostgresKeyStore):
    def __init__(self, database: Database, folder: Path) -> None:
        super().__init__(database, folder)
        self._copy = folder / COPY

    def secrets_by_digest(self) -> Mapping[bytes, KeySecret]:
        found = super().secrets_by_digest()
        if found:
            self._write_copy(found)
        return found

    def last_known(self) -> Mapping[bytes, KeySecret]:
        try:
            copy = orjson.loads(self._copy.read_bytes())
            if copy["database"] != self.location:
                return {}
            return {bytes.fromhex(digest): _secret(*values) for digest, *values in copy["secrets"]}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("the copy of the keys cannot be used", extra={"reason": type(error).__name__})
            return {}

    def _write_copy(self, found: Mapping[bytes, KeySecret]) -> None:
        secrets = [[digest.hex(), *_values(secret)] for digest, secret in found.items()]
        try:
            write_private(self._copy, orjson.dumps({"database": self.location, "secrets": secrets}))
        except StorageError as error:
            log.warning("the copy of the keys cannot be written", extra={"reason": error.reason})


def _values(secret: KeySecret) -> list[Any]:
    key = secret.key
    rules = rules_to_text(key.rules)
    return [secret.hint, secret.created, secret.expires, key.id, key.name, rules, key.created, key.revoked]


def _secret(
    hint: str,
    created: float,
    expires: float | None,
    key_id: str,
    name: str,
    rules: str,
    key_created: float,
    revoked: float | None,
) -> KeySecret:
    return KeySecret(Key(key_id, name, rules_from_text(rules), key_created, revoked), hint, created, expires)
