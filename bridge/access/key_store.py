"""The keys, in an SQLite file of their own: written by the command line, read by every worker.

A secret is kept as its digest alone, and a key may have several at a time: the current one and those that
were replaced and have not run out. A revoked key keeps its row, so its name can never mean somebody else.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import orjson

from bridge.access.defined_keys import MARKER_FILE, DefinedKeys
from bridge.access.key_format import digest, hint, new_secret
from bridge.access.keys import Key, Rules
from bridge.ids_and_clock import random_id
from bridge.settings.limits import Limits
from bridge.state.database import ROLLBACK, Database, Work

log = logging.getLogger(__name__)
T = TypeVar("T")

KEYS_FILE = "keys.sqlite3"

#: A secret that has run out is known for so long, and the log can say whose it was.
REMEMBERED = 30 * 86400

NO_FILE = (0, 0)  #: the version of a store without a file

_SCHEMA = """
CREATE TABLE IF NOT EXISTS key (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE COLLATE NOCASE, rules TEXT NOT NULL,
    created REAL NOT NULL, revoked REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS secret (
    digest BLOB PRIMARY KEY, key TEXT NOT NULL, hint TEXT NOT NULL, created REAL NOT NULL, expires REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS change (one INTEGER PRIMARY KEY, number INTEGER NOT NULL);
"""
_CHANGED = "INSERT INTO change VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET number = number + 1"
_STATE = (
    "SELECT (SELECT number FROM change), (SELECT id FROM key ORDER BY created, id LIMIT 1),"
    " EXISTS (SELECT 1 FROM key WHERE id = ?)"
)
_KEYS = "SELECT id, name, rules, created, revoked FROM key ORDER BY created, name"


class NameTaken(Exception):
    pass


class NoSuchKey(Exception):
    pass


class KeyRevoked(Exception):
    pass


class KeysLost(OSError):
    """Keys were defined, and the store does not hold them: it is missing, empty, or another's."""


@dataclass(frozen=True, slots=True)
class Held:
    """One secret of a key, as far as it is known: its end, and when it runs out."""

    key: Key
    hint: str
    created: float
    expires: float | None

    def expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now


class KeyStore:
    """Raises `sqlite3.Error` or `OSError` when the file cannot be used. One of these is `KeysLost`."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._database = Database(path, _SCHEMA, ROLLBACK)
        self._opened: tuple[int, int] | None = None
        self._defined = DefinedKeys(path.with_name(MARKER_FILE))

    # --- for the workers -----------------------------------------------------------------------------

    def version(self) -> tuple[int, int]:
        """Differs whenever anything has changed, also if the file was replaced. Without a file there is no
        key, and none is made."""
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

    def held(self) -> Mapping[bytes, Held]:
        """Every key there is, by the digests of its secrets."""
        if self.version() == NO_FILE:
            return {}
        keys, secrets = self._database.read(_everything)
        return {row[0]: Held(keys[row[1]], *row[2:]) for row in secrets}

    def _current_inode(self) -> int | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            status = None
        found = status and (status.st_ino, status.st_mtime_ns)
        if found != self._opened:  # an open connection would go on reading what was there before
            self._database, self._opened = Database(self._path, _SCHEMA, ROLLBACK), found
        return status and status.st_ino

    def _remember(self, key_id: str) -> None:
        try:
            self._defined.remember(key_id)
        except OSError as error:
            log.warning("cannot remember that keys exist", extra={"reason": type(error).__name__})

    # --- for the administrator -----------------------------------------------------------------------

    def all(self) -> list[Key]:
        if self.version() == NO_FILE:
            return []
        return self._database.read(lambda found: [_key(row) for row in found.execute(_KEYS)])

    def secrets(self, key: Key) -> list[Held]:
        """Those that have not run out, the newest first."""
        mine = [
            each for each in self.held().values() if each.key.id == key.id and not each.expired(self._now())
        ]
        return sorted(mine, key=lambda each: each.created, reverse=True)

    def add(self, name: str, rules: Rules) -> str:
        """The new key's secret, which can be had here and now only."""
        self.version()  # raises KeysLost
        key_id, secret = self._insert(name, rules)
        if self._defined.expected() is None:
            self._remember(key_id)
        return secret

    def begin_anew(self, name: str, rules: Rules) -> str:
        """Like `add`, in a new store; the file before is kept under another name. The bridge stays closed
        until the new key stands in the new store."""
        if self._path.exists():
            self._path.replace(self._path.with_name(f"{self._path.name}.replaced-{int(self._now())}"))
        self._database = Database(self._path, _SCHEMA, ROLLBACK)
        key_id, secret = self._insert(name, rules)
        self._defined.remember(key_id)
        return secret

    def _insert(self, name: str, rules: Rules) -> tuple[str, str]:
        key_id, secret = random_id("key_"), new_secret()

        def insert(database: sqlite3.Connection) -> None:
            try:
                row = (key_id, name, _rules_to_text(rules), self._now())
                database.execute("INSERT INTO key VALUES (?, ?, ?, ?, NULL)", row)
            except sqlite3.IntegrityError:
                raise NameTaken(name) from None
            self._insert_secret(database, key_id, secret)

        self._write(insert)
        return key_id, secret

    def rotate(self, name: str, grace: float) -> str:
        """A new secret; the ones before run out after `grace` seconds, or when they would have anyway."""
        secret = new_secret()
        now = self._now()

        def replace(database: sqlite3.Connection) -> None:
            key = _in_use(database, name)
            limit = "UPDATE secret SET expires = MIN(COALESCE(expires, ?1), ?1) WHERE key = ?2"
            database.execute(limit, (now + grace, key.id))
            self._insert_secret(database, key.id, secret)

        self._change(replace)
        return secret

    def change(self, name: str, changed: Callable[[Rules], Rules]) -> Key:
        def update(database: sqlite3.Connection) -> Key:
            key = _in_use(database, name)
            rules = _rules_to_text(changed(key.rules))
            database.execute("UPDATE key SET rules = ? WHERE id = ?", (rules, key.id))
            return _named(database, name)

        return self._change(update)

    def revoke(self, name: str) -> Key:
        def update(database: sqlite3.Connection) -> Key:
            key = _named(database, name)
            database.execute(
                "UPDATE key SET revoked = COALESCE(revoked, ?) WHERE id = ?", (self._now(), key.id)
            )
            return _named(database, name)

        return self._change(update)

    def _insert_secret(self, database: sqlite3.Connection, key_id: str, secret: str) -> None:
        database.execute("DELETE FROM secret WHERE expires <= ?", (self._now() - REMEMBERED,))
        values = (digest(secret), key_id, hint(secret), self._now())
        database.execute("INSERT INTO secret VALUES (?, ?, ?, ?, NULL)", values)

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
    return Key(key_id, name, _rules_from_text(rules), created, revoked)


def _rules_to_text(rules: Rules) -> str:
    return orjson.dumps(asdict(rules)).decode()


def _rules_from_text(text: str) -> Rules:
    """What an older version did not write has its default; what a newer one wrote is not known here."""
    written: dict[str, Any] = orjson.loads(text)
    limits = Limits(**_known(Limits, written.pop("limits", {})))
    values = _known(Rules, written)
    for name in ("models", "networks"):
        values[name] = tuple(values.get(name, ()))
    return Rules(**values, limits=limits)


def _known(owner: type, written: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(owner)}
    return {name: value for name, value in written.items() if name in names}
