"""The SQLite databases: concurrent transactions, and files that only their owner can read."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bridge.state.errors import StorageUnavailable
from bridge.state.sqlite.database import ROLLBACK, WAL, Database
from bridge.state.sqlite.migrations import Schema, statements

TABLE = "CREATE TABLE IF NOT EXISTS counter (number INTEGER)"
SCHEMA = Schema("counter", (statements(TABLE),))

COUNT_UP = """
import sys
from pathlib import Path
from bridge.state.sqlite import database
from bridge.state.sqlite.migrations import Schema, statements
database.BUSY_TIMEOUT = 30
schema = Schema("counter", (statements(),))
counter = database.Database(Path(sys.argv[1]), schema, getattr(database, sys.argv[2]))
def one_more(connection):
    number, = connection.execute("SELECT number FROM counter").fetchone()
    connection.execute("UPDATE counter SET number = ?", (number + 1,))
for _ in range(200):
    counter.transaction(one_more)
"""


@pytest.mark.parametrize("mode", ["WAL", "ROLLBACK"])
def test_concurrent_read_write_transactions_lose_nothing(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "counter"
    with closing(sqlite3.connect(path)) as made:
        made.execute(TABLE)
        made.execute("INSERT INTO counter VALUES (0)")
        made.commit()
    script = [sys.executable, "-c", COUNT_UP, str(path), mode]
    processes = [subprocess.Popen(script, stderr=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        _, told = process.communicate(timeout=60)
        assert (process.returncode, told) == (0, b"")
    with closing(sqlite3.connect(path)) as found:
        assert found.execute("SELECT number FROM counter").fetchone() == (600,)


@pytest.mark.parametrize("mode", [WAL, ROLLBACK])
def test_only_the_owner_may_open_a_database(tmp_path: Path, mode: tuple[str, str]) -> None:
    folder = tmp_path / "state"
    database = Database(folder / "private", SCHEMA, mode)
    database.transaction(lambda connection: connection.execute("INSERT INTO counter VALUES (1)"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for others")
def test_files_created_by_root_belong_to_the_folders_owner(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 23456)
    database = Database(tmp_path / "theirs", SCHEMA)
    database.transaction(lambda connection: connection.execute("INSERT INTO counter VALUES (1)"))
    for file in tmp_path.iterdir():
        assert (file.stat().st_uid, file.stat().st_gid) == (12345, 23456), file


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    database = Database(path, SCHEMA)
    database.transaction(lambda connection: connection.execute("INSERT INTO counter VALUES (1)"))
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert database.read(lambda found: found.execute("SELECT number FROM counter").fetchone()) == (1,)
        with pytest.raises(StorageUnavailable):
            database.transaction(lambda connection: connection.execute("DELETE FROM counter"))
