"""Numbered files that bring the tables up to date. The table `migration` says which of them were applied.

A released file never changes; a new version of the tables is a new file at the end. Bridges of the version
before may still run while it is applied, so a file only adds; what it makes superfluous is removed by a file
of a later version.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

import psycopg

from bridge.settings.database_url import secrets_in
from bridge.state.errors import DatabaseUnfit
from bridge.state.postgres.connection import Connection, connect, describe
from bridge.state.postgres.errors import UPGRADE, storage_error
from bridge.state.store import PATIENT

T = TypeVar("T")

OLDEST_SERVER = 13
#: Only one process applies files at a time. The number is arbitrary, and the same in all versions.
_LOCK = 0x67656D62
#: Seconds that one file may take, and that another process may have to wait for it.
LONGEST = 600

_MIGRATIONS = """
CREATE TABLE gemini_bridge.migration (
    number integer PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
_IS_REPLICA = "SELECT pg_is_in_recovery()"
_HAS_SCHEMA = "SELECT to_regnamespace('gemini_bridge') IS NOT NULL"
_HAS_TABLES = "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace('gemini_bridge'))"
_HAS_MIGRATIONS = """
SELECT count(*) = 2 FROM pg_attribute
    WHERE attrelid = to_regclass('gemini_bridge.migration') AND attname IN ('number', 'applied')
"""
_MAY_CREATE = "SELECT has_database_privilege(current_database(), 'CREATE')"
_VERSION = "SELECT coalesce(max(number), 0) FROM gemini_bridge.migration"


class Migration(NamedTuple):
    number: int
    name: str
    text: str


def migrations() -> list[Migration]:
    """All of them, the oldest first."""
    found = (file for file in files("bridge.state.postgres").joinpath("schema").iterdir())
    named = sorted((file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in found)
    return [Migration(int(name[:4]), name, text) for name, text in named]


def check_database(url: str) -> None:
    """Raises DatabaseUnfit if this bridge cannot work with the database, StorageUnavailable if the
    database does not answer."""
    _connected(url, _check)


def upgrade(url: str) -> list[str]:
    """Apply the missing files, all or none, and return their names."""
    return _connected(url, _upgraded)


def _connected(url: str, work: Callable[[Connection, str], T]) -> T:
    location = describe(url)
    try:
        connection, _ = connect(url)
        with connection:
            connection.patience = PATIENT
            _check_server(connection, location)
            return work(connection, location)
    except psycopg.Error as error:
        raise storage_error(location, error, secrets_in(url)) from error


def _check_server(connection: Connection, location: str) -> None:
    if connection.info.server_version < OLDEST_SERVER * 10_000:
        found = connection.info.server_version // 10_000
        raise DatabaseUnfit(
            f"{location} is PostgreSQL {found}, and the bridge needs {OLDEST_SERVER} or newer: upgrade the "
            "server, or name another one in BRIDGE_STATE_URL"
        )
    if _scalar(connection, _IS_REPLICA):
        raise DatabaseUnfit(
            f"{location} is a read-only replica: name the primary server in BRIDGE_STATE_URL; with several "
            "hosts in it, add ?target_session_attrs=read-write"
        )


def _check(connection: Connection, location: str) -> None:
    latest = migrations()[-1].number
    version = _version(connection, location)
    if version < latest:
        state = f"has tables of version {version}" if version else "has no tables of the bridge"
        raise DatabaseUnfit(f"{location} {state}, and this bridge needs version {latest}: {UPGRADE}")
    _refuse_newer(version, latest, location)


def _upgraded(connection: Connection, location: str) -> list[str]:
    known = migrations()
    connection.patience = LONGEST
    with connection.transaction():
        connection.execute(f"SET LOCAL statement_timeout = {LONGEST * 1000}")
        connection.execute(f"SET LOCAL lock_timeout = {LONGEST * 1000}")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = _version(connection, location)
        _refuse_newer(version, known[-1].number, location)
        if not _scalar(connection, _HAS_SCHEMA):  # a user with few rights needs a schema that exists
            _create_schema(connection, location)
        if not version:
            connection.execute(_MIGRATIONS)
        missing = [each for each in known if each.number > version]
        for each in missing:
            connection.execute(each.text.encode())
            record = "INSERT INTO gemini_bridge.migration (number, name) VALUES (%s, %s)"
            connection.execute(record, (each.number, each.name))
    return [each.name for each in missing]


def _create_schema(connection: Connection, location: str) -> None:
    if not _scalar(connection, _MAY_CREATE):
        raise DatabaseUnfit(
            f"the user of BRIDGE_STATE_URL may not create the schema gemini_bridge in {location}: grant it "
            "CREATE on that database, or name a database that it owns"
        )
    connection.execute("CREATE SCHEMA gemini_bridge")


def _version(connection: Connection, location: str) -> int:
    """0: the bridge has no tables there."""
    if not _scalar(connection, _HAS_TABLES):
        return 0
    if not _scalar(connection, _HAS_MIGRATIONS):
        raise DatabaseUnfit(
            f"{location} has a schema gemini_bridge of another program: it has no list of the bridge's "
            "migrations. Name another database in BRIDGE_STATE_URL, or rename that schema"
        )
    return int(_scalar(connection, _VERSION))


def _refuse_newer(version: int, latest: int, location: str) -> None:
    if version > latest:
        raise DatabaseUnfit(
            f"{location} has tables of version {version}, and this bridge knows versions up to {latest}: a "
            "newer version of the bridge changed them. Install that version here too"
        )


def _scalar(connection: Connection, query: str) -> Any:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]
