"""The keys in PostgreSQL: the command line of any machine writes them, and every worker reads them.

A file in the state folder of each machine remembers that keys were defined. So a bridge that is connected to
another, empty database refuses all clients, instead of serving them without keys.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg.rows import TupleRow

from bridge.ids_and_clock import random_id
from bridge.state.defined_keys import MARKER_FILE, DefinedKeys
from bridge.state.errors import StorageError
from bridge.state.key_store import (
    REMEMBERED,
    Key,
    KeyRevoked,
    KeySecret,
    KeysLost,
    KeyStore,
    NameTaken,
    NewSecret,
    NoSuchKey,
    Rules,
)
from bridge.state.postgres.connection import Connection
from bridge.state.postgres.database import Database, PostgresStore
from bridge.state.postgres.key_changes import CHANNEL, listen
from bridge.state.rules_text import rules_from_text, rules_to_text
from bridge.state.store import PATIENT

log = logging.getLogger(__name__)
T = TypeVar("T")

_STATE = """
SELECT (SELECT number FROM gemini_bridge.change),
    (SELECT id FROM gemini_bridge.key WHERE replaced IS NULL ORDER BY created, id LIMIT 1),
    EXISTS (SELECT 1 FROM gemini_bridge.key WHERE id = %s)
"""
_COLUMNS = "key.id, key.name, key.rules, key.created, key.revoked"
_KEYS = f"SELECT {_COLUMNS} FROM gemini_bridge.key WHERE replaced IS NULL"
_SECRETS = f"""
SELECT secret.digest, secret.hint, secret.created, secret.expires, {_COLUMNS}
    FROM gemini_bridge.secret JOIN gemini_bridge.key ON key.id = secret.key WHERE replaced IS NULL
"""
_ADD_KEY = "INSERT INTO gemini_bridge.key (id, name, rules, created) VALUES (%s, %s, %s, %s)"
_ADD_SECRET = "INSERT INTO gemini_bridge.secret (digest, key, hint, created) VALUES (%s, %s, %s, %s)"
_FORGET_SECRETS = "DELETE FROM gemini_bridge.secret WHERE expires <= %s"
_LIMIT_SECRETS = "UPDATE gemini_bridge.secret SET expires = least(coalesce(expires, %s), %s) WHERE key = %s"
#: The first statement of every change: its lock makes changes wait for each other.
_CHANGED = "UPDATE gemini_bridge.change SET number = number + 1"


class PostgresKeyStore(PostgresStore, KeyStore):
    name = "keys"
    tables = ("key",)

    def __init__(self, database: Database, folder: Path, now: Callable[[], float] = time.time) -> None:
        super().__init__(database)
        self._now = now
        self._defined = DefinedKeys(folder / MARKER_FILE)

    # --- for the workers -----------------------------------------------------------------------------

    def version(self) -> tuple[int, bool]:
        expected = self._defined.expected()
        ((number, first, whole),) = self._database.run(_STATE, (expected,))
        if expected is not None and not whole:
            raise KeysLost(f"{self.location} does not hold the keys that were defined")
        if first and expected is None:
            self._remember(first)
        return (number, first is not None)

    def on_change(self, wake: Callable[[], None]) -> None:
        listen(self._database.url, wake)

    def secrets_by_digest(self) -> Mapping[bytes, KeySecret]:
        self.version()  # raises KeysLost
        rows = self._database.run(_SECRETS)
        keys = {row[4]: _key(row[4:]) for row in rows}
        return {row[0]: KeySecret(keys[row[4]], *row[1:4]) for row in rows}

    def _remember(self, key_id: str) -> None:
        try:
            self._defined.remember(key_id)
        except StorageError as error:
            log.warning("cannot remember that keys exist", extra={"reason": error.reason})

    # --- for the administrator -----------------------------------------------------------------------

    def all(self) -> list[Key]:
        self.version()  # raises KeysLost
        return [_key(row) for row in self._database.run(f"{_KEYS} ORDER BY created, name")]

    def secrets_of(self, key: Key) -> list[KeySecret]:
        now, secrets = self._now(), self.secrets_by_digest().values()
        found = [each for each in secrets if each.key.id == key.id and not each.expired(now)]
        return sorted(found, key=lambda each: each.created, reverse=True)

    def add(self, name: str, rules: Rules, secret: NewSecret) -> None:
        self.version()  # raises KeysLost
        key_id = self._write(lambda connection: self._insert(connection, name, rules, secret))
        if self._defined.expected() is None:
            self._remember(key_id)

    def begin_anew(self, name: str, rules: Rules, secret: NewSecret) -> None:
        """The rows of earlier keys stay, and no bridge reads them any more. They show the bridges of other
        machines that this is still their database."""

        def replace(connection: Connection) -> str:
            replaced = "UPDATE gemini_bridge.key SET replaced = %s WHERE replaced IS NULL"
            connection.execute(replaced, (self._now(),))
            return self._insert(connection, name, rules, secret)

        self._defined.remember(self._write(replace))

    def rotate(self, name: str, secret: NewSecret, grace: float) -> None:
        def replace(connection: Connection) -> None:
            key, end = _in_use(connection, name), self._now() + grace
            connection.execute(_LIMIT_SECRETS, (end, end, key.id))
            self._insert_secret(connection, key.id, secret)

        self._change(replace)

    def change(self, name: str, changed: Callable[[Rules], Rules]) -> Key:
        def update(connection: Connection) -> Key:
            key = _in_use(connection, name)
            rules = rules_to_text(changed(key.rules))
            connection.execute("UPDATE gemini_bridge.key SET rules = %s WHERE id = %s", (rules, key.id))
            return _named(connection, name)

        return self._change(update)

    def revoke(self, name: str) -> Key:
        query = "UPDATE gemini_bridge.key SET revoked = coalesce(revoked, %s) WHERE id = %s"

        def update(connection: Connection) -> Key:
            connection.execute(query, (self._now(), _named(connection, name).id))
            return _named(connection, name)

        return self._change(update)

    def _insert(self, connection: Connection, name: str, rules: Rules, secret: NewSecret) -> str:
        key_id = random_id("key_")
        try:
            connection.execute(_ADD_KEY, (key_id, name, rules_to_text(rules), self._now()))
        except psycopg.errors.UniqueViolation:
            raise NameTaken(name) from None
        self._insert_secret(connection, key_id, secret)
        return key_id

    def _insert_secret(self, connection: Connection, key_id: str, secret: NewSecret) -> None:
        connection.execute(_FORGET_SECRETS, (self._now() - REMEMBERED,))
        connection.execute(_ADD_SECRET, (secret.digest, key_id, secret.hint, self._now()))

    def _change(self, work: Callable[[Connection], T]) -> T:
        self.version()  # raises KeysLost
        return self._write(work)

    def _write(self, work: Callable[[Connection], T]) -> T:
        def changed(connection: Connection) -> T:
            connection.execute(_CHANGED)
            result = work(connection)
            connection.execute(f"NOTIFY {CHANNEL}")
            return result

        return self._database.transaction(changed, patience=PATIENT)


# --- rows --------------------------------------------------------------------------------------------


def _named(connection: Connection, name: str) -> Key:
    row = connection.execute(f"{_KEYS} AND lower(name) = lower(%s)", (name,)).fetchone()
    if row is None:
        raise NoSuchKey(name)
    return _key(row)


def _in_use(connection: Connection, name: str) -> Key:
    key = _named(connection, name)
    if key.revoked is not None:
        raise KeyRevoked(name)
    return key


def _key(row: TupleRow) -> Key:
    key_id, name, rules, created, revoked = row
    return Key(key_id, name, rules_from_text(rules), created, revoked)
