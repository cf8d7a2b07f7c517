"""Keys in PostgreSQL: notices of changes, and a database that is not the one with the keys."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from client_keys import IssuedKeys
from postgres_server import PostgresServer
from waiting import eventually

from bridge.access.key_cache import BETWEEN_LOOKS, KeyCache
from bridge.access.key_format import digest
from bridge.state.key_store import KeysLost, Rules
from bridge.state.postgres import key_changes
from bridge.state.postgres.database import Database
from bridge.state.postgres.key_store import PostgresKeyStore


def bridge_keys(folder: Path, url: str) -> IssuedKeys:
    """The keys as a bridge on another machine has them."""
    return IssuedKeys(PostgresKeyStore(Database(url, patience=5), folder))


def stopped() -> float:
    """A clock by which the cache never looks again by itself."""
    return 0.0


def test_a_notice_makes_the_cache_of_another_machine_look_at_once(postgres, tmp_path: Path) -> None:
    administrator = bridge_keys(tmp_path / "a", postgres.url)
    secret = administrator.add("alice", Rules())
    cache = KeyCache(bridge_keys(tmp_path / "b", postgres.url).store, stopped)
    assert eventually(lambda: notices(postgres) == 1)
    assert cache.find(digest(secret)).key.revoked is None
    administrator.revoke("alice")
    assert eventually(lambda: cache.find(digest(secret)).key.revoked)


def test_without_notices_the_version_shows_the_change(
    postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_changes, "_wake_on_notices", lambda _url, _wake: False)
    administrator = bridge_keys(tmp_path / "a", postgres.url)
    secret = administrator.add("alice", Rules())
    cache = KeyCache(bridge_keys(tmp_path / "b", postgres.url).store)
    assert cache.find(digest(secret)).key.revoked is None
    administrator.revoke("alice")
    revoked = time.monotonic()
    assert eventually(lambda: cache.find(digest(secret)).key.revoked)
    assert time.monotonic() - revoked < 2 * BETWEEN_LOOKS + 1


def test_the_connection_for_notices_ends_with_the_cache(postgres, tmp_path: Path) -> None:
    cache = KeyCache(bridge_keys(tmp_path, postgres.url).store)
    assert eventually(lambda: notices(postgres) == 1)
    del cache
    assert eventually(lambda: notices(postgres) == 0)


def notices(postgres) -> int:
    """The number of connections that wait for notices."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE %s"
    ((found,),) = postgres.database().run(query, ("NOTIFY gemini_bridge%",))
    return int(found)


def test_another_database_is_not_taken_for_a_bridge_without_keys(
    postgres, server: PostgresServer, template: str, tmp_path: Path
) -> None:
    bridge_keys(tmp_path, postgres.url).add("alice", Rules())
    empty = bridge_keys(tmp_path, server.new_database(template))
    for use in (empty.version, empty.all, empty.secrets_by_digest, lambda: empty.add("bob", Rules())):
        with pytest.raises(KeysLost):
            use()
    assert empty.begin_anew("bob", Rules())
    assert [key.name for key in empty.all()] == ["bob"]


def test_a_new_store_is_new_for_the_other_machines_too(postgres, tmp_path: Path) -> None:
    one, other = bridge_keys(tmp_path / "a", postgres.url), bridge_keys(tmp_path / "b", postgres.url)
    one.add("alice", Rules())
    assert len(other.all()) == 1
    one.begin_anew("bob", Rules())
    assert [key.name for key in other.all()] == ["bob"]
