"""The file of keys: digests only, names used once, and changes that every reader sees."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from client_keys import ClientKeys

from bridge.access.key_format import digest
from bridge.settings.limits import Limits
from bridge.state.defined_keys import MARKER_FILE, DefinedKeys
from bridge.state.errors import StorageError
from bridge.state.key_store import KeySecret, KeysLost, Rules
from bridge.state.sqlite.database import ROLLBACK, Database
from bridge.state.sqlite.key_store import SCHEMA

ALL = Rules("Alice", ("gemini-*", "gpt-5"), ("10.0.0.0/8",), 2e9, Limits(1, 2, 3, 4.5, 6))


class Clock:
    def __init__(self) -> None:
        self.now = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "not yet there" / "keys.sqlite3"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(path: Path, clock: Clock) -> ClientKeys:
    return ClientKeys(path.parent, clock)


def found(store: ClientKeys, secret: str) -> KeySecret | None:
    return store.secrets_by_digest().get(digest(secret))


def test_only_the_hint_of_a_secret_is_stored_in_clear(store: ClientKeys, path: Path) -> None:
    secret = store.add("alice", Rules())
    kept = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert secret[4:-4].encode() not in kept
    assert secret[4:16].encode() not in kept
    assert digest(secret) in kept


def test_only_the_owner_can_read_the_key_file(store: ClientKeys, path: Path) -> None:
    store.add("alice", Rules())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_reading_creates_no_file(store: ClientKeys, path: Path) -> None:
    assert (store.version(), store.secrets_by_digest(), store.all()) == ((0, 0), {}, [])
    assert not path.parent.exists()


def test_a_restored_backup_is_read_again(store: ClientKeys, path: Path) -> None:
    reader = ClientKeys(path.parent)
    old = store.add("alice", Rules())
    backup = path.read_bytes()
    new = store.add("bob", Rules())
    assert found(reader, new)
    path.unlink()
    path.write_bytes(backup)
    assert found(reader, old)
    assert not found(reader, new)


def remove(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_empty_store(path: Path) -> None:
    path.unlink()
    Database(path, SCHEMA, ROLLBACK).transaction(lambda _database: None)


def replace_by_other_store(path: Path) -> None:
    other = path.with_name("elsewhere") / path.name
    ClientKeys(other.parent).add("mallory", Rules())
    other.replace(path)


def overwrite_by_other_store(path: Path) -> None:
    other = path.with_name("elsewhere") / path.name
    ClientKeys(other.parent).add("mallory", Rules())
    path.write_bytes(other.read_bytes())


def fill_with_garbage(path: Path) -> None:
    path.write_bytes(b"This is no database. " * 100)


LOSSES = [
    remove,
    truncate,
    replace_by_empty_store,
    replace_by_other_store,
    overwrite_by_other_store,
    fill_with_garbage,
]


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("reading_before", [True, False])
def test_a_store_that_lost_its_keys_is_unreadable(
    store: ClientKeys, path: Path, lose: Callable[[Path], None], reading_before: bool
) -> None:
    reader = ClientKeys(path.parent)
    store.add("alice", Rules())
    if reading_before:
        reader.version()
    lose(path)
    for use in (reader.version, reader.secrets_by_digest, reader.all, lambda: reader.add("bob", Rules())):
        with pytest.raises(StorageError):
            use()


def test_a_process_that_read_keys_detects_their_loss_without_a_marker(store: ClientKeys, path: Path) -> None:
    store.add("alice", Rules())
    reader = ClientKeys(path.parent)
    reader.version()
    path.unlink()
    path.with_name(MARKER_FILE).unlink()
    with pytest.raises(KeysLost):
        reader.version()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"key_of_nobody"])
def test_a_marker_without_a_matching_key_makes_the_store_unreadable(
    store: ClientKeys, path: Path, content: bytes
) -> None:
    store.add("alice", Rules())
    path.with_name(MARKER_FILE).write_bytes(content)
    with pytest.raises(KeysLost):
        ClientKeys(path.parent).secrets_by_digest()


def test_keys_of_an_earlier_version_get_a_marker_when_first_read(store: ClientKeys, path: Path) -> None:
    store.add("alice", Rules())
    marker = path.with_name(MARKER_FILE)
    marker.unlink()
    ClientKeys(path.parent).version()
    assert marker.stat().st_mode & 0o777 == 0o600
    path.unlink()
    with pytest.raises(KeysLost):
        ClientKeys(path.parent).version()


def test_concurrent_processes_never_write_a_partial_marker(store: ClientKeys, path: Path) -> None:
    store.add("alice", Rules())
    (key,) = store.all()
    marker = DefinedKeys(path.with_name(MARKER_FILE))
    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(DefinedKeys(path.with_name(MARKER_FILE)).remember, key.id) for _ in range(200)]
        while not all(each.done() for each in writes):
            assert marker.expected() == key.id
    assert [each.exception() for each in writes] == [None] * 200
    assert {file.name for file in path.parent.iterdir()} == {path.name, MARKER_FILE}


def test_a_new_store_after_a_loss_invalidates_all_earlier_keys(store: ClientKeys, path: Path) -> None:
    reader = ClientKeys(path.parent)
    old = store.add("alice", Rules())
    assert found(reader, old)
    fill_with_garbage(path)
    new = store.begin_anew("bob", Rules())
    assert found(reader, new)
    assert not found(reader, old)
    (kept,) = path.parent.glob(f"{path.name}.replaced-*")
    assert kept.read_bytes().startswith(b"This is no database")


def test_rules_of_another_version_are_read(store: ClientKeys, path: Path) -> None:
    store.add("alice", Rules(owner="Alice"))
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            """UPDATE key SET rules = '{"owner":"A","limits":{"streams":2,"moons":1},"mood":3}'"""
        )
        database.commit()
    assert store.all()[0].rules == Rules(owner="A", limits=Limits(streams=2))


def test_a_read_only_store_can_be_read(store: ClientKeys, path: Path) -> None:
    """As on a full or read-only disk: no file beside it is needed."""
    secret = store.add("alice", Rules())
    path.chmod(0o400)
    assert {file.name for file in path.parent.iterdir()} == {path.name, MARKER_FILE}
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        assert database.execute("SELECT name FROM key").fetchall() == [("alice",)]
    assert found(ClientKeys(path.parent), secret)
