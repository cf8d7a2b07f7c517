"""The keys in an SQLite file: the command line writes it, and every worker reads it.

The file may be deleted, restored from a backup or replaced while the service runs. The store then opens the
new file, and refuses one that does not hold the keys that were defined.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

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
from bridge.state.rules_text import rules_from_text, rules_to_text
from bridge.state.sqlite.database import ROLLBACK, Database, SqliteStore, Work, storage_error
from bridge.state.sqlite.migrations import Schema, statements

log = logging.getLogger(__name__)
T = TypeVar("T")

NO_FILE = (0, 0)  #: the version of a store without a file

SCHEMA = Schema(
    "change",
    (
        statements(
            """
            CREATE TABLE IF NOT EXISTS key (
                id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE COLLATE NOCASE, rules TEXT NOT NULL,
                created REAL NOT NULL, revoked REAL
            ) WITHOUT ROWID
            """,
            """
            CREATE TABLE IF NOT EXISTS secret (
                digest BLOB PRIMARY KEY, key TEXT NOT NULL, hint TEXT NOT NULL, created REAL NOT NULL,
                expires REAL
            ) WITHOUT ROWID
            """,
            "CREATE TABLE IF NOT EXISTS change (one INTEGER PRIMARY KEY, number INTEGER NOT NULL)",
        ),
    ),
)
_CHANGED = (
    "INSERT INTO change (one, number) VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET number = number + 1"
)
_STATE = (
    "SELECT (SELECT number FROM change), (SELECT id FROM key ORDER BY created, id LIMIT 1),"
    " EXISTS (SELECT 1 FROM key WHERE id = ?)"
)
_KEYS = "SELECT id, name, rules, created, revoked FROM key ORDER BY created, name"
_ADD_KEY = "INSERT INTO key (id, name, rules, created, revoked) VALUES (?, ?, ?, ?, NULL)"
_ADD_SECRET = "INSERT INTO secret (digest, key, hint, created, expires) VALUES (?, ?, ?, ?, NULL)"


class SqliteKeyStore(SqliteStore, KeyStore):
    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        self._now = now
        self._database = Database(path, SCHEMA, ROLLBACK)
        self._opened: tuple[int, int] | None = None
        self._defined = DefinedKeys(path.with_name(MARKER_FILE))

    # --- for the workers -----------------------------------------------------------------------------

    def version(self) -> tuple[int, int]:
        """It also differs when the file was replaced. A missing file means no keys, and is not created."""
        expected, inode = self._defined.expected(), self._current_inode()
        if inode is None:
            if expected is not None:
                raise KeysLost(f"{self._path} is missing")
            return NO_FILE
        number, first, whole = self._database.read(lambda db: db.execute(_STATE, (expected,)).fetchone())
        if expected is not None and not whole:
            raise KeysLost(f"{self._path} does not hold the keys that were defined")
        if first and expected is None:
            self._remember(first)
        return (inode, number or 0)

    def secrets_by_digest(self) -> Mapping[bytes, KeySecret]:
        if self.version() == NO_FILE:
            return {}
        keys, secrets = self._database.read(_everything)
        return {row[0]: KeySecret(keys[row[1]], *row[2:]) for row in secrets}

    def _current_inode(self) -> int | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            status = None
        except OSError as error:
            raise storage_error(self._path, error) from error
        found = status and (status.st_ino, status.st_mtime_ns)
        if found != self._opened:  # an open connection would continue to read the old file
            self._database, self._opened = Database(self._path, SCHEMA, ROLLBACK), found
        return status and status.st_ino

    def _remember(self, key_id: str) -> None:
        try:
            self._defined.remember(key_id)
        except StorageError as error:
            log.warning("cannot remember that keys exist", extra={"reason": error.reason})

    # --- for the administrator -----------------------------------------------------------------------

    def all(self) -> list[Key]:
        if self.version() == NO_FILE:
            return []
        return self._database.read(lambda found: [_key(row) for row in found.execute(_KEYS)])

    def secrets_of(self, key: Key) -> list[KeySecret]:
        now = self._now()
        secrets = [
            each
            for each in self.secrets_by_digest().values()
            if each.key.id == key.id and not each.expired(now)
        ]
        return sorted(secrets, key=lambda each: each.created, reverse=True)

    def add(self, name: str, rules: Rules, secret: NewSecret) -> None:
        self.version()  # raises KeysLost
        key_id = self._insert(name, rules, secret)
        if self._defined.expected() is None:
            self._remember(key_id)

    def begin_anew(self, name: str, rules: Rules, secret: NewSecret) -> None:
        """The old file is renamed. Until the new key is in the new file, the workers refuse all keys that
        they do not know."""
        try:
            if self._path.exists():
                self._path.replace(self._path.with_name(f"{self._path.name}.replaced-{int(self._now())}"))
        except OSError as error:
            raise storage_error(self._path, error) from error
        self._database = Database(self._path, SCHEMA, ROLLBACK)
        self._defined.remember(self._insert(name, rules, secret))

    def _insert(self, name: str, rules: Rules, secret: NewSecret) -> str:
        key_id = random_id("key_")

        def insert(database: sqlite3.Connection) -> None:
            try:
                database.execute(_ADD_KEY, (key_id, name, rules_to_text(rules), self._now()))
            except sqlite3.IntegrityError:
                raise NameTaken(name) from None
            self._insert_secret(database, key_id, secret)

        self._write(insert)
        return key_id

    def rotate(self, name: str, secret: NewSecret, grace: float) -> None:
        now = self._now()

        def replace(database: sqlite3.Connection) -> None:
            key = _in_use(database, name)
            limit = "UPDATE secret SET expires = MIN(COALESCE(expires, ?1), ?1) WHERE key = ?2"
            database.execute(limit, (now + grace, key.id))
            self._insert_secret(database, key.id, secret)

        self._change(replace)

    def change(self, name: str, changed: Callable[[Rules], Rules]) -> Key:
        def update(database: sqlite3.Connection) -> Key:
            key = _in_use(database, name)
            rules = rules_to_text(changed(key.rules))
            database.execute("UPDATE key SET rules = ? WHERE id = ?", (rules, key.id))
            return _named(database, name)

        return self._change(update)

    def revoke(self, name: str) -> Key:
        query = "UPDATE key SET revoked = COALESCE(revoked, ?) WHERE id = ?"

        def update(database: sqlite3.Connection) -> Key:
            database.execute(query, (self._now(), _named(database, name).id))
            return _named(database, name)

        return self._change(update)

    def _insert_secret(self, database: sqlite3.Connection, key_id: str, secret: NewSecret) -> None:
        database.execute("DELETE FROM secret WHERE expires <= ?", (self._now() - REMEMBERED,))
        database.execute(_ADD_SECRET, (secret.digest, key_id, secret.hint, self._now()))

    def _change(self, work: Work[T]) -> T:
        self.version()  # raises KeysLost
        return self._write(work)

    def _write(self, work: Work[T]) -> T:
        self._current_inode()

        def changed(database: sqlite3.Connection) -> T:
            database.execute(_CHANGED)
            return work(database)

        return self._database.transaction(changed)


# --- rows --------------------------------------------------------------------------------------------


def _everything(database: sqlite3.Connection) -> tuple[dict[str, Key], list[Any]]:
    keys = {row[0]: _key(row) for row in database.execute(_KEYS)}
    secrets = "SELECT digest, key, hint, created, expires FROM secret"
    return keys, database.execute(secrets).fetchall()


def _named(database: sqlite3.Connection, name: str) -> Key:
    row = database.execute(f"SELECT * FROM ({_KEYS}) WHERE name = ? COLLATE NOCASE", (name,)).fetchone()
    if row is None:
        raise NoSuchKey(name)
    return _key(row)


def _in_use(database: sqlite3.Connection, name: str) -> Key:
    key = _named(database, name)
    if key.revoked is not None:
        raise KeyRevoked(name)
    return key


def _key(row: tuple[str, str, str, float, float | None]) -> Key:
    key_id, name, rules, created, revoked = row
    return Key(key_id, name, rules_from_text(rules), created, revoked)
