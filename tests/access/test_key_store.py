"""The key store: it holds only digests, uses names once, and shows changes to every reader."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.access.defined_keys import MARKER_FILE, DefinedKeys
from bridge.access.key_format import digest, new_secret
from bridge.access.key_store import (
    _SCHEMA,
    REMEMBERED,
    Held,
    KeyRevoked,
    KeysLost,
    KeyStore,
    NameTaken,
    NoSuchKey,
)
from bridge.access.keys import Rules
from bridge.settings.limits import Limits

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
def store(path: Path, clock: Clock) -> KeyStore:
    return KeyStore(path, clock)


def found(store: KeyStore, secret: str) -> Held | None:
    return store.held().get(digest(secret))


def test_a_key_is_found_by_its_secret_and_by_no_other(store: KeyStore) -> None:
    secret = store.add("alice", ALL)
    store.add("bob", Rules())
    held = found(store, secret)
    assert held is not None
    assert (held.key.name, held.key.rules, held.expires) == ("alice", ALL, None)
    assert found(store, new_secret()) is None
    assert [key.name for key in store.all()] == ["alice", "bob"]


def test_only_the_hint_of_a_secret_is_stored_in_clear(store: KeyStore, path: Path) -> None:
    secret = store.add("alice", Rules())
    kept = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert secret[4:-4].encode() not in kept
    assert secret[4:16].encode() not in kept
    assert digest(secret) in kept


def test_only_the_owner_can_read_the_key_file(store: KeyStore, path: Path) -> None:
    store.add("alice", Rules())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_reading_creates_no_file(store: KeyStore, path: Path) -> None:
    assert (store.version(), store.held(), store.all()) == ((0, 0), {}, [])
    assert not path.parent.exists()


def test_a_name_is_used_once_whatever_its_case_and_even_if_revoked(store: KeyStore) -> None:
    store.add("alice", Rules())
    store.revoke("alice")
    for name in ("alice", "ALICE"):
        with pytest.raises(NameTaken):
            store.add(name, Rules())
    assert len(store.all()) == 1


def test_every_change_gives_another_version_to_every_reader(store: KeyStore, path: Path) -> None:
    reader = KeyStore(path)
    versions = [reader.version()]
    for change in (
        lambda: store.add("alice", Rules()),
        lambda: store.rotate("alice", 0),
        lambda: store.change("alice", lambda rules: replace(rules, owner="Alice")),
        lambda: store.revoke("alice"),
    ):
        change()
        versions.append(reader.version())
    assert len(set(versions)) == 5
    assert reader.version() == versions[-1]


def test_a_restored_backup_is_read_again(store: KeyStore, path: Path) -> None:
    reader = KeyStore(path)
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
    with closing(sqlite3.connect(path)) as database:
        database.executescript(_SCHEMA)


def replace_by_other_store(path: Path) -> None:
    other = path.with_name("elsewhere") / path.name
    KeyStore(other).add("mallory", Rules())
    other.replace(path)


def overwrite_by_other_store(path: Path) -> None:
    other = path.with_name("elsewhere") / path.name
    KeyStore(other).add("mallory", Rules())
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
    store: KeyStore, path: Path, lose: Callable[[Path], None], reading_before: bool
) -> None:
    reader = KeyStore(path)
    store.add("alice", Rules())
    if reading_before:
        reader.version()
    lose(path)
    for use in (reader.version, reader.held, reader.all, lambda: reader.add("bob", Rules())):
        with pytest.raises((OSError, sqlite3.Error)):
            use()


def test_a_process_that_read_keys_detects_their_loss_without_a_marker(store: KeyStore, path: Path) -> None:
    store.add("alice", Rules())
    reader = KeyStore(path)
    reader.version()
    path.unlink()
    path.with_name(MARKER_FILE).unlink()
    with pytest.raises(KeysLost):
        reader.version()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"key_of_nobody"])
def test_a_marker_without_a_matching_key_makes_the_store_unreadable(
    store: KeyStore, path: Path, content: bytes
) -> None:
    store.add("alice", Rules())
    path.with_name(MARKER_FILE).write_bytes(content)
    with pytest.raises(KeysLost):
        KeyStore(path).held()


def test_keys_of_an_earlier_version_get_a_marker_when_first_read(store: KeyStore, path: Path) -> None:
    store.add("alice", Rules())
    marker = path.with_name(MARKER_FILE)
    marker.unlink()
    KeyStore(path).version()
    assert marker.stat().st_mode & 0o777 == 0o600
    path.unlink()
    with pytest.raises(KeysLost):
        KeyStore(path).version()


def test_concurrent_processes_never_write_a_partial_marker(store: KeyStore, path: Path) -> None:
    store.add("alice", Rules())
    (key,) = store.all()
    marker = DefinedKeys(path.with_name(MARKER_FILE))
    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(DefinedKeys(path.with_name(MARKER_FILE)).remember, key.id) for _ in range(200)]
        while not all(each.done() for each in writes):
            assert marker.expected() == key.id
    assert [each.exception() for each in writes] == [None] * 200
    assert {file.name for file in path.parent.iterdir()} == {path.name, MARKER_FILE}


def test_a_new_store_after_a_loss_invalidates_all_earlier_keys(store: KeyStore, path: Path) -> None:
    reader = KeyStore(path)
    old = store.add("alice", Rules())
    assert found(reader, old)
    fill_with_garbage(path)
    new = store.begin_anew("bob", Rules())
    assert found(reader, new)
    assert not found(reader, old)
    (kept,) = path.parent.glob(f"{path.name}.replaced-*")
    assert kept.read_bytes().startswith(b"This is no database")


def test_a_rotated_key_keeps_its_identity_and_its_old_secret_expires(store: KeyStore, clock: Clock) -> None:
    first = store.add("alice", ALL)
    second = store.rotate("alice", grace=3600)
    old, new = found(store, first), found(store, second)
    assert old is not None
    assert new is not None
    assert old.key == new.key
    assert (old.expires, new.expires) == (clock.now + 3600, None)
    clock.now += 60
    third = store.rotate("alice", grace=86400)
    assert [found(store, each).expires for each in (first, second, third)] == [
        clock.now + 3540,  # another rotation does not extend its validity
        clock.now + 86400,
        None,
    ]
    store.rotate("alice", grace=0)
    assert found(store, third).expired(clock.now)
    assert len(store.secrets(new.key)) == 1
    clock.now += REMEMBERED + 3541
    store.rotate("alice", grace=0)
    assert found(store, first) is None, "what ran out long ago is forgotten"


def test_secrets_of_a_key_are_listed_the_newest_first(store: KeyStore, clock: Clock) -> None:
    store.add("bob", Rules())
    secrets = [store.add("alice", Rules())]
    for _ in range(2):
        clock.now += 1
        secrets.append(store.rotate("alice", 100))
    alice = store.all()[-1] if store.all()[-1].name == "alice" else store.all()[0]
    assert [each.hint for each in store.secrets(alice)] == [secret[-4:] for secret in reversed(secrets)]


def test_a_revoked_key_stays_revoked(store: KeyStore, clock: Clock) -> None:
    secret = store.add("alice", Rules())
    first = store.revoke("Alice").revoked
    clock.now += 100
    assert store.revoke("alice").revoked == first == found(store, secret).key.revoked
    with pytest.raises(KeyRevoked):
        store.rotate("alice", 0)
    with pytest.raises(KeyRevoked):
        store.change("alice", lambda rules: rules)


@pytest.mark.parametrize("name", ["nobody", "", "' OR 1=1 --", "alice'; DROP TABLE key; --", "\x00", "%"])
def test_an_unknown_name_changes_nothing(store: KeyStore, name: str) -> None:
    store.add("alice", Rules())
    before = (store.held(), store.version())
    for change in (
        store.revoke,
        lambda each: store.rotate(each, 0),
        lambda each: store.change(each, lambda r: r),
    ):
        with pytest.raises(NoSuchKey):
            change(name)
    assert (store.held(), store.version()) == before


@settings(max_examples=20)
@given(
    owner=st.text(st.characters(codec="utf-8"), max_size=20),
    models=st.lists(st.text(st.characters(codec="utf-8"))),
)
def test_rules_are_read_as_they_were_written(tmp_path_factory, owner: str, models: list[str]) -> None:
    rules = Rules(owner, tuple(models), ("::1",), None, Limits(streams=3, cost_per_day=0.1))
    store = KeyStore(tmp_path_factory.mktemp("keys") / "k")
    assert found(store, store.add("alice", rules)).key.rules == rules


def test_rules_of_another_version_are_read(store: KeyStore, path: Path) -> None:
    store.add("alice", Rules(owner="Alice"))
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            """UPDATE key SET rules = '{"owner":"A","limits":{"streams":2,"moons":1},"mood":3}'"""
        )
        database.commit()
    assert store.all()[0].rules == Rules(owner="A", limits=Limits(streams=2))


def test_a_read_only_store_can_be_read(store: KeyStore, path: Path) -> None:
    """Reading needs no additional file, so it works on a full or read-only disk."""
    secret = store.add("alice", Rules())
    path.chmod(0o400)
    assert {file.name for file in path.parent.iterdir()} == {path.name, MARKER_FILE}
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        assert database.execute("SELECT name FROM key").fetchall() == [("alice",)]
    assert found(KeyStore(path), secret)
