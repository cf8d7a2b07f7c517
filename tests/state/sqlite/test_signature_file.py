"""The signature store: shared, bounded, and never the reason why a request fails."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bridge.state.sqlite import database as database_module
from bridge.state.sqlite import signature_store as store_module
from bridge.state.sqlite.signature_store import LIFETIME, SqliteSignatureStore

FAMILY = "gemini-3"
ME = "me"


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "not yet there" / "signatures.sqlite3"


def rows(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as database:
        return {call_id for (call_id,) in database.execute("SELECT call_id FROM owned_signature")}


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.name for record in caplog.records if record.levelno == logging.WARNING]


# --- it keeps ----------------------------------------------------------------------------------------


def test_rows_of_an_earlier_version_belong_to_no_owner(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE signature (family TEXT NOT NULL, call_id TEXT NOT NULL, signature TEXT NOT NULL, "
            "kept REAL NOT NULL, PRIMARY KEY (family, call_id)) WITHOUT ROWID"
        )
        database.execute("INSERT INTO signature VALUES (?, '1', 'old', 4e9)", (FAMILY,))
        database.commit()
    store = SqliteSignatureStore(path)
    assert store.of("").find(FAMILY, ["1"]) == store.of("a").find(FAMILY, ["1"]) == {}
    store.of("a").keep(FAMILY, {"1": "new"})
    assert store.of("a").find(FAMILY, ["1"]) == {"1": "new"}


def test_an_overlong_id_is_neither_looked_up_nor_stored(path: Path) -> None:
    store = SqliteSignatureStore(path)
    assert store.find(ME, FAMILY, ["x" * 1_000_000, "1"]) == {}
    assert [call_id for _, _, call_id in store._absent.known] == ["1"]


# --- it is shared ------------------------------------------------------------------------------------


def run_python(script: str, path: Path) -> None:
    """In a process of its own, which has no threads and may fork."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_another_process_reads_and_writes(path: Path) -> None:
    store = SqliteSignatureStore(path)
    store.keep(ME, FAMILY, {"1": "one"})
    run_python(
        """
import sys
from pathlib import Path
from bridge.state.sqlite.signature_store import SqliteSignatureStore
store = SqliteSignatureStore(Path(sys.argv[1]))
assert store.find("me", "gemini-3", ["1"]) == {"1": "one"}
store.keep("me", "gemini-3", {"2": "two"})
""",
        path,
    )
    assert store.find(ME, FAMILY, ["1", "2"]) == {"1": "one", "2": "two"}


def test_the_store_works_on_both_sides_of_a_fork(path: Path) -> None:
    run_python(
        """
import os, sys
from pathlib import Path
from bridge.state.sqlite.signature_store import SqliteSignatureStore
store = SqliteSignatureStore(Path(sys.argv[1]))
store.keep("me", "gemini-3", {"1": "before"})
inherited = store._database._connection
child = os.fork()
if child == 0:
    store.keep("me", "gemini-3", {"2": "child"})
    good = store.find("me", "gemini-3", ["1", "2"]) == {"1": "before", "2": "child"}
    os._exit(0 if good and store._database._connection is not inherited else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert store._database._connection is inherited
store.keep("me", "gemini-3", {"3": "parent"})
found = store.find("me", "gemini-3", ["1", "2", "3"])
assert found == {"1": "before", "2": "child", "3": "parent"}, found
""",
        path,
    )
    assert rows(path) == {"1", "2", "3"}


# --- it is bounded -----------------------------------------------------------------------------------


@pytest.fixture
def tidies_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "WRITES_BETWEEN_TIDYING", 2)


@pytest.mark.usefixtures("tidies_always")
def test_expired_signatures_are_deleted(path: Path) -> None:
    clock = Clock()
    store = SqliteSignatureStore(path, clock)
    store.keep(ME, FAMILY, {"old": "s"})
    clock.now += LIFETIME / 2
    store.keep(ME, FAMILY, {"middling": "s"})
    clock.now += LIFETIME / 2
    store.keep(ME, FAMILY, {"new": "s"})
    assert rows(path) == {"middling", "new"}


@pytest.mark.usefixtures("tidies_always")
def test_storing_a_signature_again_renews_it(path: Path) -> None:
    clock = Clock()
    store = SqliteSignatureStore(path, clock)
    store.keep(ME, FAMILY, {"1": "s"})
    clock.now += LIFETIME - 10
    store.keep(ME, FAMILY, {"1": "s"})
    clock.now += 20
    store.keep(ME, FAMILY, {"2": "s"})
    assert rows(path) == {"1", "2"}


@pytest.mark.usefixtures("tidies_always")
def test_above_the_limit_the_oldest_signatures_are_deleted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MOST_ROWS", 3)
    store = SqliteSignatureStore(path, Clock())
    for number in range(7):
        store.keep(ME, FAMILY, {str(number): "s"})
    assert rows(path) == {"4", "5", "6"}


def test_opening_the_store_deletes_expired_signatures(path: Path) -> None:
    clock = Clock()
    store = SqliteSignatureStore(path, clock)
    for number in range(4):
        store.keep(ME, FAMILY, {str(number): "s"})
    clock.now += LIFETIME + 10
    SqliteSignatureStore(path, clock).keep(ME, FAMILY, {"new": "s"})
    assert rows(path) == {"new"}


# --- it never fails ----------------------------------------------------------------------------------


def shrugs(store: SqliteSignatureStore, caplog: pytest.LogCaptureFixture) -> None:
    """Neither use raises, each is logged, and no signature is in the log."""
    caplog.clear()
    store.keep(ME, FAMILY, {"1": "a-secret-signature"})
    assert warnings_in(caplog) == ["bridge.state.sqlite.signature_store"]
    assert store.find(ME, FAMILY, ["1"]) == {}
    assert warnings_in(caplog) == ["bridge.state.sqlite.signature_store"] * 2
    assert "a-secret-signature" not in caplog.text


@pytest.fixture
def unusable(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_text("a file")
    return {
        "below a file": file / "signatures.sqlite3",
        "a directory": tmp_path,
        "not a database": _corrupt(tmp_path / "corrupt"),
        "another table": _other_table(tmp_path / "other"),
    }[request.param]


def _corrupt(path: Path) -> Path:
    path.write_bytes(b"This is no database. " * 500)
    return path


def _other_table(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE owned_signature (something_else TEXT)")
    return path


@pytest.mark.parametrize(
    "unusable", ["below a file", "a directory", "not a database", "another table"], indirect=True
)
def test_an_unusable_file_is_logged_and_has_no_other_effect(
    unusable: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteSignatureStore(unusable)
    shrugs(store, caplog)
    shrugs(store, caplog)


def test_a_file_corrupted_in_use_is_logged_and_has_no_other_effect(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteSignatureStore(path)
    store.keep(ME, FAMILY, {"0": "s"})
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE owned_signature")
    shrugs(store, caplog)


@pytest.fixture
def held(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """Another process that has the database to itself."""
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT", 0)
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        yield holder


def test_a_locked_new_file_is_logged_and_used_once_it_is_free(
    path: Path, held: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteSignatureStore(path)
    held.execute("BEGIN EXCLUSIVE")
    shrugs(store, caplog)
    held.execute("COMMIT")
    store.keep(ME, FAMILY, {"2": "two"})
    assert store.find(ME, FAMILY, ["1", "2"]) == {"2": "two"}


def test_a_locked_file_in_use_is_logged_when_written_and_still_read(
    path: Path, held: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteSignatureStore(path)
    store.keep(ME, FAMILY, {"1": "one"})
    held.execute("BEGIN EXCLUSIVE")
    store.keep(ME, FAMILY, {"2": "two"})
    assert warnings_in(caplog) == ["bridge.state.sqlite.signature_store"]
    assert store.find(ME, FAMILY, ["1", "2"]) == {"1": "one"}  # the write-ahead log lets readers through
    held.execute("COMMIT")
    store.keep(ME, FAMILY, {"3": "three"})
    assert store.find(ME, FAMILY, ["1", "2", "3"]) == {"1": "one", "3": "three"}
    assert warnings_in(caplog) == ["bridge.state.sqlite.signature_store"]


def test_missing_signatures_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteSignatureStore(tmp_path / "signatures.sqlite3")
    assert store.find(ME, "f", ["a", "b"]) == {}
    asked: list[object] = []
    monkeypatch.setattr(store, "_attempt", lambda _run, _work, otherwise: asked.append(1) or otherwise)
    assert store.find(ME, "f", ["a", "b"]) == {}
    assert not asked
    store.find(ME, "other", ["a"])
    assert asked


# --- it is each owner's own --------------------------------------------------------------------------
