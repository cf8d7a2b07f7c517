"""Migrations of the files: each step runs once, in order, under a lock; newer files are refused."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from bridge.settings.limits import Limits
from bridge.state.errors import SchemaTooNew, StorageError, StorageUnavailable
from bridge.state.key_store import NewSecret, Rules
from bridge.state.ledger import LimitedSubject
from bridge.state.sqlite import answer_store, expiring_names, key_store, ledger, signature_store, usage_store
from bridge.state.sqlite.database import Database
from bridge.state.sqlite.migrations import Schema, added_column, statements
from bridge.state.usage_store import UsageQuery, UsageRow

OF_0_1_0 = Path(__file__).parent.parent / "files_of_0_1_0"
TWO_TABLES = Schema(
    "first",
    (statements("CREATE TABLE first (number INTEGER)"), statements("CREATE TABLE second (number INTEGER)")),
)

SCHEMAS = {
    "accounts.sqlite3": usage_store.SCHEMA,
    "answers.sqlite3": answer_store.SCHEMA,
    "cooldowns.sqlite3": expiring_names.SCHEMA,
    "keys.sqlite3": key_store.SCHEMA,
    "limits.sqlite3": ledger.SCHEMA,
    "signatures.sqlite3": signature_store.SCHEMA,
}


def scalar(path: Path, query: str) -> Any:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchone()[0]


def open_file(path: Path, schema: Schema) -> None:
    Database(path, schema).read(lambda _database: None)


def shape(path: Path) -> dict[str, Any]:
    """Every column of every table."""
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: sorted(row[1:6] for row in database.execute(f"PRAGMA table_info({table})"))
            for table in tables
        }


# --- steps -------------------------------------------------------------------------------------------


def test_a_new_file_gets_all_steps_and_their_number(tmp_path: Path) -> None:
    open_file(tmp_path / "new", TWO_TABLES)
    assert scalar(tmp_path / "new", "PRAGMA user_version") == 2
    assert set(shape(tmp_path / "new")) == {"first", "second"}


def test_a_file_without_a_number_that_has_the_first_tables_gets_the_later_steps(tmp_path: Path) -> None:
    path = tmp_path / "old"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE first (number INTEGER); INSERT INTO first (number) VALUES (7)")
    open_file(path, TWO_TABLES)
    assert scalar(path, "SELECT number FROM first") == 7
    assert set(shape(path)) == {"first", "second"}


def test_steps_are_applied_all_or_none(tmp_path: Path) -> None:
    path = tmp_path / "file"
    open_file(path, Schema("first", TWO_TABLES.steps[:1]))
    broken = Schema("first", (*TWO_TABLES.steps, statements("CREATE TABLE wrong syntax")))
    with pytest.raises(StorageError) as error:
        open_file(path, broken)
    assert not isinstance(error.value, StorageUnavailable)
    assert scalar(path, "PRAGMA user_version") == 1
    assert set(shape(path)) == {"first"}


def test_a_lacking_column_is_added_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    open_file(path, Schema("first", TWO_TABLES.steps[:1]))
    column = added_column("first", "name", "TEXT NOT NULL DEFAULT ''")
    open_file(path, Schema("first", (TWO_TABLES.steps[0], column, column)))
    assert [name for _, name in sorted((row[0] != "number", row[0]) for row in shape(path)["first"])] == [
        "number",
        "name",
    ]


AT_ONCE = """
import sys, time
from pathlib import Path
from bridge.state.sqlite import database
from bridge.state.sqlite.migrations import Schema, statements
def slow(connection):
    connection.execute("INSERT INTO applied (step) VALUES (2)")
    time.sleep(0.3)
steps = (
    statements("CREATE TABLE applied (step INTEGER)", "INSERT INTO applied (step) VALUES (1)"),
    slow,
    statements("INSERT INTO applied (step) VALUES (3)"),
)
print("ready", flush=True)
sys.stdin.readline()
found = database.Database(Path(sys.argv[1]), Schema("applied", steps, longest_wait=30))
print(found.read(lambda connection: connection.execute("SELECT step FROM applied").fetchall()))
"""


def test_processes_that_migrate_at_once_apply_each_step_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")  # what is tested are the steps, not this switch
    command = [sys.executable, "-c", AT_ONCE, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        printed, errors = process.communicate(timeout=60)
        assert (printed, errors) == ("[(1,), (2,), (3,)]\n", "")
    assert scalar(path, "PRAGMA user_version") == 3


# --- the stores' files -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_file_of_0_1_0_becomes_what_a_new_file_is(tmp_path: Path, name: str) -> None:
    old, new = tmp_path / "old.sqlite3", tmp_path / "new.sqlite3"
    shutil.copy(OF_0_1_0 / name, old)
    assert scalar(old, "PRAGMA user_version") == 0
    for path in (old, new):
        open_file(path, SCHEMAS[name])
    assert shape(old) == shape(new)


def test_keys_of_0_1_0_are_read_without_writing(tmp_path: Path) -> None:
    """So that an upgrade on a full or read-only disk does not lock every client out."""
    shutil.copytree(OF_0_1_0, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "keys.sqlite3"
    before = path.read_bytes()
    assert len(key_store.SqliteKeyStore(path).all()) == 2
    assert path.read_bytes() == before


LIMITED = LimitedSubject("key:1", "", Limits(requests_per_minute=1))

USES: dict[str, Callable[[Path], object]] = {
    "keys.sqlite3": lambda path: key_store.SqliteKeyStore(path).add("a", Rules(), NewSecret(b"d", "h")),
    "limits.sqlite3": lambda path: ledger.SqliteLedger(path).enter([LIMITED]),
    "answers.sqlite3": lambda path: answer_store.SqliteAnswerStore(path, 1, 1).find("me", "resp_1"),
    "accounts.sqlite3": lambda path: usage(path).write([UsageRow(**dict.fromkeys(UsageRow._fields, 0))]),
    "accounts.sqlite3, read": lambda path: usage(path).sums(
        UsageQuery(("day",), date(2026, 1, 1), date(2026, 1, 2))
    ),
}


def usage(path: Path) -> usage_store.SqliteUsageStore:
    return usage_store.SqliteUsageStore(path, days=9, request_days=9, megabytes=1)


@pytest.mark.parametrize("name", USES)
def test_a_file_of_a_newer_version_is_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name.partition(",")[0]
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE future (number INTEGER); PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew) as refused:
        USES[name](path)
    for part in (str(path), "newer version", "99", "move the file away"):
        assert part in str(refused.value)
    assert shape(path) == {"future": [("number", "INTEGER", 0, None, 0)]}
    assert len(path.read_bytes()) == len(before)
