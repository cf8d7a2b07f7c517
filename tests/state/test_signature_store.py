"""The signature store: shared, bounded, and without failures for requests."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests
from gunicorn_bridge import Bridge
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_gemini import ScriptedGemini, call_chunk, sse

from bridge.state import database as database_module
from bridge.state import signature_store as vault_module
from bridge.state.signature_store import LIFETIME, MOST_AT_ONCE, SqliteVault

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


# --- storing -----------------------------------------------------------------------------------------


def test_only_stored_signatures_are_found(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vault = SqliteVault(path)
    vault.keep(ME, FAMILY, {"1": "one", "2": "two", "3": "three"})
    assert vault.find(ME, FAMILY, ["1", "3", "4"]) == {"1": "one", "3": "three"}
    assert vault.find(ME, FAMILY, iter(["2"])) == {"2": "two"}
    assert vault.find(ME, FAMILY, []) == {}
    assert warnings_in(caplog) == []


@settings(deadline=None, max_examples=30)
@given(
    kept=st.dictionaries(st.text(), st.text(), max_size=5),
    family=st.text(),
)
def test_any_text_is_stored_unchanged(
    tmp_path_factory: pytest.TempPathFactory, kept: dict[str, str], family: str
) -> None:
    vault = SqliteVault(tmp_path_factory.mktemp("vault") / "v")
    vault.keep(ME, family, kept)
    assert vault.find(ME, family, [*kept, "one that was not"]) == kept


def test_families_are_separated(path: Path) -> None:
    vault = SqliteVault(path)
    vault.keep(ME, "a", {"1": "of a"})
    vault.keep(ME, "b", {"1": "of b"})
    assert vault.find(ME, "a", ["1"]) == {"1": "of a"}
    assert vault.find(ME, "b", ["1"]) == {"1": "of b"}
    assert vault.find(ME, "c", ["1"]) == {}


def test_owners_are_separated(path: Path) -> None:
    vault = SqliteVault(path)
    vault.of("a").keep(FAMILY, {"1": "of a"})
    assert vault.of("b").find(FAMILY, ["1"]) == {}
    vault.of("b").keep(FAMILY, {"1": "of b"})
    assert vault.of("a").find(FAMILY, ["1"]) == {"1": "of a"}
    assert vault.of("b").find(FAMILY, ["1"]) == {"1": "of b"}
    assert vault.of("").find(FAMILY, ["1"]) == {}


def test_rows_of_an_earlier_version_belong_to_no_owner(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE signature (family TEXT NOT NULL, call_id TEXT NOT NULL, signature TEXT NOT NULL, "
            "kept REAL NOT NULL, PRIMARY KEY (family, call_id)) WITHOUT ROWID"
        )
        database.execute("INSERT INTO signature VALUES (?, '1', 'old', 4e9)", (FAMILY,))
        database.commit()
    vault = SqliteVault(path)
    assert vault.of("").find(FAMILY, ["1"]) == vault.of("a").find(FAMILY, ["1"]) == {}
    vault.of("a").keep(FAMILY, {"1": "new"})
    assert vault.of("a").find(FAMILY, ["1"]) == {"1": "new"}


def test_an_overlong_id_is_neither_looked_up_nor_stored(path: Path) -> None:
    vault = SqliteVault(path)
    assert vault.find(ME, FAMILY, ["x" * 1_000_000, "1"]) == {}
    assert [call_id for _, _, call_id in vault._absent] == ["1"]


def test_the_newest_signature_of_a_call_wins(path: Path) -> None:
    vault = SqliteVault(path)
    vault.keep(ME, FAMILY, {"1": "old"})
    vault.keep(ME, FAMILY, {"1": "new"})
    assert vault.find(ME, FAMILY, ["1"]) == {"1": "new"}


def test_the_first_call_of_a_long_history_keeps_its_signature(path: Path) -> None:
    vault = SqliteVault(path)
    vault.keep(ME, FAMILY, {"first": "1", "last": "2"})
    ids = ["first", *map(str, range(2 * MOST_AT_ONCE)), "last"]
    assert vault.find(ME, FAMILY, ids) == {"first": "1", "last": "2"}


# --- sharing -----------------------------------------------------------------------------------------


def test_two_stores_on_one_file_share_their_signatures(path: Path) -> None:
    one, other = SqliteVault(path), SqliteVault(path)
    one.keep(ME, FAMILY, {"1": "one"})
    other.keep(ME, FAMILY, {"2": "two"})
    assert one.find(ME, FAMILY, ["1", "2"]) == other.find(ME, FAMILY, ["1", "2"]) == {"1": "one", "2": "two"}


def test_signatures_survive_reopening(path: Path) -> None:
    SqliteVault(path).keep(ME, FAMILY, {"1": "one"})
    assert SqliteVault(path).find(ME, FAMILY, ["1"]) == {"1": "one"}


def run_python(script: str, path: Path) -> None:
    """Run the script in a separate process without threads, which may fork."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_another_process_reads_and_writes(path: Path) -> None:
    vault = SqliteVault(path)
    vault.keep(ME, FAMILY, {"1": "one"})
    run_python(
        """
import sys
from pathlib import Path
from bridge.state.signature_store import SqliteVault
vault = SqliteVault(Path(sys.argv[1]))
assert vault.find("me", "gemini-3", ["1"]) == {"1": "one"}
vault.keep("me", "gemini-3", {"2": "two"})
""",
        path,
    )
    assert vault.find(ME, FAMILY, ["1", "2"]) == {"1": "one", "2": "two"}


def test_the_store_works_on_both_sides_of_a_fork(path: Path) -> None:
    run_python(
        """
import os, sys
from pathlib import Path
from bridge.state.signature_store import SqliteVault
vault = SqliteVault(Path(sys.argv[1]))
vault.keep("me", "gemini-3", {"1": "before"})
inherited = vault._database._connection
child = os.fork()
if child == 0:
    vault.keep("me", "gemini-3", {"2": "child"})
    good = vault.find("me", "gemini-3", ["1", "2"]) == {"1": "before", "2": "child"}
    os._exit(0 if good and vault._database._connection is not inherited else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert vault._database._connection is inherited
vault.keep("me", "gemini-3", {"3": "parent"})
found = vault.find("me", "gemini-3", ["1", "2", "3"])
assert found == {"1": "before", "2": "child", "3": "parent"}, found
""",
        path,
    )
    assert rows(path) == {"1", "2", "3"}


def test_threads_share_the_store(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vault = SqliteVault(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: vault.keep(ME, FAMILY, {str(number): "s"}), range(64)))
        found = list(pool.map(lambda number: vault.find(ME, FAMILY, [str(number)]), range(64)))
    assert found == [{str(number): "s"} for number in range(64)]
    assert warnings_in(caplog) == []


# --- limits ------------------------------------------------------------------------------------------


@pytest.fixture
def tidies_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_module, "WRITES_BETWEEN_TIDYING", 2)


@pytest.mark.usefixtures("tidies_always")
def test_expired_signatures_are_deleted(path: Path) -> None:
    clock = Clock()
    vault = SqliteVault(path, clock)
    vault.keep(ME, FAMILY, {"old": "s"})
    clock.now += LIFETIME / 2
    vault.keep(ME, FAMILY, {"middling": "s"})
    clock.now += LIFETIME / 2
    vault.keep(ME, FAMILY, {"new": "s"})
    assert rows(path) == {"middling", "new"}


@pytest.mark.usefixtures("tidies_always")
def test_storing_a_signature_again_renews_it(path: Path) -> None:
    clock = Clock()
    vault = SqliteVault(path, clock)
    vault.keep(ME, FAMILY, {"1": "s"})
    clock.now += LIFETIME - 10
    vault.keep(ME, FAMILY, {"1": "s"})
    clock.now += 20
    vault.keep(ME, FAMILY, {"2": "s"})
    assert rows(path) == {"1", "2"}


@pytest.mark.usefixtures("tidies_always")
def test_above_the_limit_the_oldest_signatures_are_deleted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault_module, "MOST_ROWS", 3)
    vault = SqliteVault(path, Clock())
    for number in range(7):
        vault.keep(ME, FAMILY, {str(number): "s"})
    assert rows(path) == {"4", "5", "6"}


def test_opening_the_store_deletes_expired_signatures(path: Path) -> None:
    clock = Clock()
    vault = SqliteVault(path, clock)
    for number in range(4):
        vault.keep(ME, FAMILY, {str(number): "s"})
    clock.now += LIFETIME + 10
    SqliteVault(path, clock).keep(ME, FAMILY, {"new": "s"})
    assert rows(path) == {"new"}


# --- failures ----------------------------------------------------------------------------------------


def assert_failures_are_only_logged(vault: SqliteVault, caplog: pytest.LogCaptureFixture) -> None:
    """Check that neither method raises, each failure is logged, and no signature is in the log."""
    caplog.clear()
    vault.keep(ME, FAMILY, {"1": "a-secret-signature"})
    assert warnings_in(caplog) == ["bridge.state.signature_store"]
    assert vault.find(ME, FAMILY, ["1"]) == {}
    assert warnings_in(caplog) == ["bridge.state.signature_store"] * 2
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
    vault = SqliteVault(unusable)
    assert_failures_are_only_logged(vault, caplog)
    assert_failures_are_only_logged(vault, caplog)


def test_a_file_corrupted_in_use_is_logged_and_has_no_other_effect(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vault = SqliteVault(path)
    vault.keep(ME, FAMILY, {"0": "s"})
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE owned_signature")
    assert_failures_are_only_logged(vault, caplog)


@pytest.fixture
def held(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """A connection of another process that locks the database."""
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT", 0)
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        yield holder


def test_a_locked_new_file_is_logged_and_used_once_it_is_free(
    path: Path, held: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    vault = SqliteVault(path)
    held.execute("BEGIN EXCLUSIVE")
    assert_failures_are_only_logged(vault, caplog)
    held.execute("COMMIT")
    vault.keep(ME, FAMILY, {"2": "two"})
    assert vault.find(ME, FAMILY, ["1", "2"]) == {"2": "two"}


def test_a_locked_file_in_use_is_logged_when_written_and_still_read(
    path: Path, held: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    vault = SqliteVault(path)
    vault.keep(ME, FAMILY, {"1": "one"})
    held.execute("BEGIN EXCLUSIVE")
    vault.keep(ME, FAMILY, {"2": "two"})
    assert warnings_in(caplog) == ["bridge.state.signature_store"]
    assert vault.find(ME, FAMILY, ["1", "2"]) == {"1": "one"}  # the write-ahead log allows readers
    held.execute("COMMIT")
    vault.keep(ME, FAMILY, {"3": "three"})
    assert vault.find(ME, FAMILY, ["1", "2", "3"]) == {"1": "one", "3": "three"}
    assert warnings_in(caplog) == ["bridge.state.signature_store"]


def test_missing_signatures_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = SqliteVault(tmp_path / "signatures.sqlite3")
    assert vault.find(ME, "f", ["a", "b"]) == {}
    asked: list[object] = []
    monkeypatch.setattr(vault, "_attempt", lambda _run, _work, otherwise: asked.append(1) or otherwise)
    assert vault.find(ME, "f", ["a", "b"]) == {}
    assert not asked
    vault.find(ME, "other", ["a"])
    assert asked


def test_a_missing_signature_is_found_once_it_is_stored(tmp_path: Path) -> None:
    vault = SqliteVault(tmp_path / "signatures.sqlite3")
    assert vault.find(ME, "f", ["a"]) == {}
    vault.keep(ME, "f", {"a": "signature"})
    assert vault.find(ME, "f", ["a"]) == {"a": "signature"}


def test_missing_signatures_are_cached_for_a_limited_time(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    path = tmp_path / "signatures.sqlite3"
    one, other = SqliteVault(path, lambda: now[0]), SqliteVault(path, lambda: now[0])
    assert one.find(ME, "f", ["a"]) == {}
    other.keep(ME, "f", {"a": "signature"})
    now[0] += vault_module.ABSENT_FOR + 1
    assert one.find(ME, "f", ["a"]) == {"a": "signature"}


# --- owners ------------------------------------------------------------------------------------------


def send_history(bridge: Bridge, key: str, *history: dict[str, Any]) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    answer = requests.post(
        f"{bridge.address}/v1/chat/completions",
        json={"model": "gpt-5", "messages": [{"role": "user", "content": "Look"}, *history], "tools": [tool]},
        headers={"Authorization": f"Bearer {key}"},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


def signatures_sent(gemini: ScriptedGemini) -> list[str | None]:
    parts = (part for content in gemini.asked[-1].body["contents"] for part in content["parts"])
    return [part.get("thoughtSignature") for part in parts if "functionCall" in part]


def test_a_call_id_of_another_owner_finds_nothing(bridge: Bridge, gemini: ScriptedGemini) -> None:
    call_id = uuid4().hex
    gemini.will_say(sse(call_chunk("look", {}, call_id, "c2lnbmVkLWZvci1hbGljZQ==", "STOP")))
    (call,) = send_history(bridge, "alice")["tool_calls"]
    del call["extra_content"]  # like many clients
    past = (
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": "x"},
    )
    send_history(bridge, "mallory", *past)
    assert "c2lnbmVkLWZvci1hbGljZQ==" not in signatures_sent(gemini)
    send_history(bridge, "alice", *past)
    assert signatures_sent(gemini) == ["c2lnbmVkLWZvci1hbGljZQ=="]
