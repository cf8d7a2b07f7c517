"""The copy of the keys, for workers that start while the database is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.access.key_cache import KeyCache, KeysUnavailable
from bridge.settings.limits import Limits
from bridge.state.errors import StorageUnavailable
from bridge.state.key_store import KeysLost, NewSecret, Rules
from bridge.state.postgres.database import Database
from bridge.state.postgres.remembered_keys import COPY, RememberingKeyStore

RULES = Rules("owner", ("gemini-*",), ("10.0.0.0/8",), 9e9, Limits(streams=2), strict=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def store(postgres, folder: Path) -> RememberingKeyStore:
    made = RememberingKeyStore(postgres.database(), folder)
    made.add("alice", RULES, NewSecret(b"digest", "hint"))
    made.add("bob", Rules(), NewSecret(b"other", "hint"))
    made.revoke("bob")
    return made


def away(postgres, folder: Path, error: Exception, monkeypatch: pytest.MonkeyPatch) -> RememberingKeyStore:
    """The store of a worker that starts now."""
    database = Database(postgres.url)

    def run(*_arguments, **_named):
        raise error

    monkeypatch.setattr(database, "run", run)
    return RememberingKeyStore(database, folder)


def test_a_new_worker_knows_the_keys(postgres, store, folder: Path, monkeypatch) -> None:
    known = store.secrets_by_digest()
    later = away(postgres, folder, StorageUnavailable("away"), monkeypatch)
    assert later.last_known() == known
    cache = KeyCache(later)
    assert cache.find(b"digest") == known[b"digest"]
    assert cache.find(b"other").key.revoked
    assert not cache.readable
    assert (folder / COPY).stat().st_mode & 0o777 == 0o600


def test_a_database_that_lost_the_keys_is_not_replaced_by_the_copy(
    postgres, store, folder: Path, monkeypatch
) -> None:
    store.secrets_by_digest()
    with pytest.raises(KeysUnavailable):
        KeyCache(away(postgres, folder, KeysLost("another database"), monkeypatch)).find(b"digest")


def test_the_copy_of_another_database_is_not_used(server, store, folder: Path) -> None:
    store.secrets_by_digest()
    assert RememberingKeyStore(Database(server.url("elsewhere")), folder).last_known() == {}


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{}", b'{"database": 1, "secrets": []}'])
def test_a_damaged_copy_is_not_used(store, folder: Path, content: bytes) -> None:
    (folder / COPY).write_bytes(content)
    assert store.last_known() == {}


def test_without_keys_there_is_no_copy(postgres, folder: Path) -> None:
    assert RememberingKeyStore(postgres.database(), folder).secrets_by_digest() == {}
    assert not (folder / COPY).exists()
