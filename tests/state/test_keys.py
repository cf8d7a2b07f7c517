"""The key store: digests only, names used once, and changes that every reader sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest
from client_keys import IssuedKeys
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.access.key_format import digest, new_secret
from bridge.settings.limits import Limits
from bridge.state.key_store import KeyRevoked, KeySecret, NameTaken, NoSuchKey, Rules

ALL = Rules("Alice", ("gemini-*", "gpt-5"), ("10.0.0.0/8",), 2e9, Limits(1, 2, 3, 4.5, 6))
#: An expired secret is forgotten after this time.
REMEMBERED = 30 * 86400

Clock = Callable[[], float]


@pytest.fixture
def store(backend, clock) -> IssuedKeys:
    return IssuedKeys(backend.keys(clock))


def found(store: IssuedKeys, secret: str) -> KeySecret | None:
    return store.secrets_by_digest().get(digest(secret))


def test_a_key_is_found_by_its_secret_and_by_no_other(store: IssuedKeys) -> None:
    secret = store.add("alice", ALL)
    store.add("bob", Rules())
    held = found(store, secret)
    assert held is not None
    assert (held.key.name, held.key.rules, held.expires) == ("alice", ALL, None)
    assert found(store, new_secret()) is None
    assert [key.name for key in store.all()] == ["alice", "bob"]


def test_a_name_is_used_once_whatever_its_case_and_even_if_revoked(store: IssuedKeys) -> None:
    store.add("alice", Rules())
    store.revoke("alice")
    for name in ("alice", "ALICE"):
        with pytest.raises(NameTaken):
            store.add(name, Rules())
    assert len(store.all()) == 1


def test_every_change_gives_another_version_to_every_reader(backend, store: IssuedKeys) -> None:
    reader = backend.keys()
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


def test_a_rotated_key_keeps_its_identity_and_its_old_secret_expires(store: IssuedKeys, clock: Clock) -> None:
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
        clock.now + 3540,  # another rotation does not lengthen its life
        clock.now + 86400,
        None,
    ]
    store.rotate("alice", grace=0)
    assert found(store, third).expired(clock.now)
    assert len(store.secrets_of(new.key)) == 1
    clock.now += REMEMBERED + 3541
    store.rotate("alice", grace=0)
    assert found(store, first) is None, "what ran out long ago is forgotten"


def test_secrets_of_a_key_are_listed_the_newest_first(store: IssuedKeys, clock: Clock) -> None:
    store.add("bob", Rules())
    secrets = [store.add("alice", Rules())]
    for _ in range(2):
        clock.now += 1
        secrets.append(store.rotate("alice", 100))
    alice = store.all()[-1] if store.all()[-1].name == "alice" else store.all()[0]
    assert [each.hint for each in store.secrets_of(alice)] == [secret[-4:] for secret in reversed(secrets)]


def test_a_revoked_key_stays_revoked(store: IssuedKeys, clock: Clock) -> None:
    secret = store.add("alice", Rules())
    first = store.revoke("Alice").revoked
    clock.now += 100
    assert store.revoke("alice").revoked == first == found(store, secret).key.revoked
    with pytest.raises(KeyRevoked):
        store.rotate("alice", 0)
    with pytest.raises(KeyRevoked):
        store.change("alice", lambda rules: rules)


@pytest.mark.parametrize("name", ["nobody", "", "' OR 1=1 --", "alice'; DROP TABLE key; --", "\x00", "%"])
def test_an_unknown_name_changes_nothing(store: IssuedKeys, name: str) -> None:
    store.add("alice", Rules())
    before = (store.secrets_by_digest(), store.version())
    for change in (
        store.revoke,
        lambda each: store.rotate(each, 0),
        lambda each: store.change(each, lambda r: r),
    ):
        with pytest.raises(NoSuchKey):
            change(name)
    assert (store.secrets_by_digest(), store.version()) == before


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    owner=st.text(st.characters(codec="utf-8"), max_size=20),
    models=st.lists(st.text(st.characters(codec="utf-8"))),
)
def test_rules_are_read_as_they_were_written(store: IssuedKeys, owner: str, models: list[str]) -> None:
    rules = Rules(owner, tuple(models), ("::1",), None, Limits(streams=3, cost_per_day=0.1))
    assert found(store, store.add(f"key-{uuid4().hex}", rules)).key.rules == rules


def test_without_keys_there_is_nothing_to_read(store: IssuedKeys) -> None:
    assert (dict(store.secrets_by_digest()), store.all()) == ({}, [])
    assert store.version() == store.version()


def test_a_new_store_ends_all_earlier_keys(backend, store: IssuedKeys) -> None:
    reader = IssuedKeys(backend.keys())
    old = store.add("alice", Rules())
    assert found(reader, old)
    new = store.begin_anew("bob", Rules())
    assert found(reader, new)
    assert not found(reader, old)
