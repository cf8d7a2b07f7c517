"""The SQLite files of a state folder as a whole: copied while the bridge writes, checked and counted."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from bridge.state.errors import SchemaTooNew, StorageError
from bridge.state.private_file import create_private
from bridge.state.sqlite import (
    agent_run_store,
    answer_store,
    conversation_store,
    event_store,
    expiring_names,
    flight_store,
    key_store,
    ledger,
    signature_store,
    summary_store,
    usage_store,
    waiting_rows,
)
from bridge.state.sqlite.database import CHECK_TIMEOUT, storage_error
from bridge.state.sqlite.migrations import Schema

#: All files but `cache.sqlite3`, which the bridge can do without.
SCHEMAS: Mapping[str, Schema] = {
    "keys.sqlite3": key_store.SCHEMA,
    "limits.sqlite3": ledger.SCHEMA,
    "accounts.sqlite3": usage_store.SCHEMA,
    "answers.sqlite3": answer_store.SCHEMA,
    "events.sqlite3": event_store.SCHEMA,
    "conversations.sqlite3": conversation_store.SCHEMA,
    "signatures.sqlite3": signature_store.SCHEMA,
    "summaries.sqlite3": summary_store.SCHEMA,
    "agent_runs.sqlite3": agent_run_store.SCHEMA,
    "flights.sqlite3": flight_store.SCHEMA,
    "cooldowns.sqlite3": expiring_names.SCHEMA,
    "learnt.sqlite3": expiring_names.SCHEMA,
    "failures.sqlite3": expiring_names.SCHEMA,
    "limits_away.sqlite3": ledger.SCHEMA,
    "usage_waiting.sqlite3": waiting_rows.SCHEMA,
    "limits_waiting.sqlite3": waiting_rows.SCHEMA,
}
#: SQLite keeps recent changes in files with these endings beside the file.
COMPANIONS = ("", "-wal", "-shm", "-journal")

Rows = dict[str, int]  #: the number of rows of each table


def copy_file(source: Path, target: Path) -> None:
    """Copy one moment of the file, while others write to it. Raises StorageError."""
    create_private(target)
    try:
        with closing(_reading(source)) as here, closing(sqlite3.connect(target)) as copy:
            here.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # else the copy would have companions
    except sqlite3.Error as error:
        raise storage_error(source, error) from error


def rows_of(path: Path) -> Rows:
    """Empty if there is no file. Raises StorageError."""
    if not path.exists():
        return {}
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    try:
        with closing(_reading(path)) as database:
            tables = [str(row[0]) for row in database.execute(query)]
            return {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
    except sqlite3.Error as error:
        raise storage_error(path, error) from error


def check_copy(path: Path) -> None:
    """Raises SchemaTooNew if this bridge does not know its tables, StorageError if the file is damaged."""
    try:
        with closing(_reading(path)) as database:
            version = int(database.execute("PRAGMA user_version").fetchone()[0])
            found = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        raise StorageError(f"{path.name} in the backup is damaged: {error}") from error
    known = len(SCHEMAS[path.name].steps)
    if version > known:
        raise SchemaTooNew(
            f"{path.name} in the backup was written by a newer version of the bridge: its tables have "
            f"version {version}, and this bridge knows versions up to {known}. Install the newer version, "
            "then restore"
        )
    if found != "ok":
        raise StorageError(f"{path.name} in the backup is damaged: {found}")


def _reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=CHECK_TIMEOUT)
