"""Authentication of requests, and the use of known keys while the store is unreadable."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from client_keys import KEYS_FILE, ClientKeys

from bridge.access import key_cache as ring_module
from bridge.access.authentication import Authenticator, Identity, describe_access
from bridge.access.key_cache import BETWEEN_LOOKS, PAUSE_AFTER_FAILURE, KeyCache
from bridge.access.key_format import new_secret
from bridge.errors import NotAllowed, TooBusy
from bridge.settings import Settings, SettingsError, load
from bridge.state.key_store import Rules
from bridge.state.sqlite import database as database_module
from bridge.state.sqlite.key_store import SqliteKeyStore

HERE = "10.0.0.7"


class Clock:
    def __init__(self) -> None:
        self.now = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> ClientKeys:
    return ClientKeys(tmp_path, clock)


def settings(tmp_path: Path, **environ: str) -> Settings:
    return load(environ={"BRIDGE_STATE_DIR": str(tmp_path), **environ})


@pytest.fixture
def make_authenticator(tmp_path: Path, clock: Clock):
    def make(**environ: str) -> Authenticator:
        key_cache = KeyCache(ClientKeys(tmp_path), clock)
        return Authenticator(settings(tmp_path, **environ), key_cache, clock)

    return make


def identity(authenticator: Authenticator, *shown: str, peer: str = HERE, forwarded: str = "") -> Identity:
    return authenticator.authenticate(shown, peer, forwarded)


# --- with and without keys ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "with_keys", "let_in"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"BRIDGE_SERVER__HOST": "0.0.0.0"}, False, False),
        ({"BRIDGE_SERVER__HOST": "0.0.0.0"}, True, False),
        ({"BRIDGE_SERVER__HOST": "0.0.0.0", "BRIDGE_ACCESS__OPEN": "true"}, False, True),
        ({"BRIDGE_ACCESS__OPEN": "true"}, True, True),
    ],
)
@pytest.mark.parametrize("shown", [(), ("any",)])
def test_a_request_without_a_valid_key_passes_only_if_none_is_required(
    make_authenticator,
    store: ClientKeys,
    environ: dict[str, str],
    with_keys: bool,
    let_in: bool,
    shown: tuple[str, ...],
) -> None:
    if with_keys:
        store.add("alice", Rules())
    assert (identity(make_authenticator(**environ), *shown).problem is None) == let_in


def test_one_valid_key_among_several_is_enough(make_authenticator, store: ClientKeys) -> None:
    secret = store.add("alice", Rules())
    authenticator = make_authenticator()
    for shown in ([secret], ["of a proxy", secret], [secret, "dummy"]):
        found = identity(authenticator, *shown)
        assert found.key is not None
        assert (found.key.name, found.problem) == ("alice", None)


def test_an_open_bridge_still_identifies_keys(make_authenticator, store: ClientKeys) -> None:
    secret = store.add("alice", Rules())
    assert identity(make_authenticator(BRIDGE_ACCESS__OPEN="true"), secret).key.name == "alice"


def test_the_log_says_why_a_key_was_refused(make_authenticator, store: ClientKeys, clock: Clock) -> None:
    good = store.add("good", Rules())
    expired = store.add("expired", Rules(expires=clock.now + 10))
    revoked = store.add("revoked", Rules())
    store.revoke("revoked")
    rotated = store.add("rotated", Rules())
    store.rotate("rotated", 5)
    elsewhere = store.add("elsewhere", Rules(networks=("192.168.0.0/16",)))
    clock.now += 10
    authenticator = make_authenticator()
    assert [identity(authenticator, *shown).problem for shown in ([good], [])] == [None, "key_missing"]
    assert identity(authenticator, new_secret()).problem == "key_unknown"
    assert identity(authenticator, "' OR 1=1 --").problem == "key_malformed"
    assert identity(authenticator, expired).problem == "key_expired"
    assert identity(authenticator, revoked).problem == "key_revoked"
    assert identity(authenticator, rotated).problem == "key_rotated"
    assert identity(authenticator, elsewhere).problem == "key_not_from_here"
    assert identity(authenticator, elsewhere).key.name == "elsewhere"


def test_a_key_is_valid_only_from_its_address_ranges(make_authenticator, store: ClientKeys) -> None:
    secret = store.add("alice", Rules(networks=("192.168.0.0/16", "::1")))
    authenticator = make_authenticator()
    assert identity(authenticator, secret, peer="192.168.3.4").problem is None
    assert identity(authenticator, secret, peer="::1").problem is None
    assert identity(authenticator, secret, peer="127.0.0.1", forwarded="192.168.3.4").problem is None
    assert identity(authenticator, secret, peer=HERE, forwarded="192.168.3.4").problem == "key_not_from_here"
    assert (
        identity(authenticator, secret, peer="127.0.0.1", forwarded="192.168.3.4, 8.8.8.8").problem
        == "key_not_from_here"
    )
    strict = make_authenticator(BRIDGE_SERVER__TRUSTED_PROXIES="[]")
    assert identity(strict, secret, peer="127.0.0.1", forwarded="192.168.3.4").problem == "key_not_from_here"


def test_stored_answers_belong_to_the_key_and_not_to_its_secret(
    make_authenticator, store: ClientKeys
) -> None:
    first = store.add("alice", Rules())
    second = store.rotate("alice", 3600)
    other = store.add("bob", Rules())
    authenticator = make_authenticator()
    assert (
        identity(authenticator, first).owner
        == identity(authenticator, second).owner
        != identity(authenticator, other).owner
    )
    assert first not in identity(authenticator, first).owner


def test_without_keys_stored_answers_belong_to_the_sent_credential(make_authenticator) -> None:
    authenticator = make_authenticator()
    assert identity(authenticator, "one").owner == identity(authenticator, "one", "more").owner
    assert (
        len(
            {
                identity(authenticator).owner,
                identity(authenticator, "one").owner,
                identity(authenticator, "two").owner,
            }
        )
        == 3
    )


# --- models ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "name", "model", "allowed"),
    [
        ((), "anything", "at-all", True),
        (("gemini-*flash*",), "gemini-3.8-flash", "gemini-3.8-flash", True),
        (("gemini-*flash*",), "models/gemini-3.8-flash", "gemini-3.8-flash", True),
        (("gemini-*flash*",), "gpt-5-mini", "gemini-3.8-flash", True),  # by the resolved model
        (("gpt-5",), "gpt-5", "gemini-3.1-pro-preview", True),  # by its exact name
        (("gpt-5",), "gemini-3.1-pro-preview", "gemini-3.1-pro-preview", False),
        (("gemini-*flash*",), "gemini-3.1-pro-preview", "gemini-3.1-pro-preview", False),
        (("GEMINI-*",), "gemini-3.1-pro-preview", "gemini-3.1-pro-preview", True),
        (("gpt-5",), "gpt-5\n", "gemini-3.1-pro-preview", False),
        (("gpt-5",), "xgpt-5", "gemini-3.1-pro-preview", False),
        (("GPT-5",), "gpt-5", "gemini-3.1-pro-preview", True),
        (("*flash*",), "claude-flash", "gemini-3.1-pro-preview", False),  # a client can invent such a name
        (("claude-*",), "claude-opus-4-8", "gemini-3.1-pro-preview", False),
        (("*flash*",), "claude/claude-flash[1m]", "gemini-3.1-pro-preview", False),
        (("claude-opus-4-8",), "claude/claude-opus-4-8[1m]", "gemini-3.1-pro-preview", True),
        (("*",), "anything", "gemini-3.1-pro-preview", True),
    ],
)
def test_models_are_allowed_by_the_model_that_serves_or_by_an_exact_name(
    make_authenticator, store: ClientKeys, patterns: tuple[str, ...], name: str, model: str, allowed: bool
) -> None:
    found = identity(make_authenticator(), store.add("alice", Rules(models=patterns)))
    assert found.may_use(name, model) == allowed
    if allowed:
        found.permit(name, model)
        return
    with pytest.raises(NotAllowed) as refused:
        found.permit(name, model)
    assert repr(name) in refused.value.message
    assert patterns[0] in refused.value.message


def test_a_very_long_model_name_is_not_repeated(make_authenticator, store: ClientKeys) -> None:
    found = identity(make_authenticator(), store.add("alice", Rules(models=("gpt-5",))))
    with pytest.raises(NotAllowed) as refused:
        found.permit("x" * 100_000, "gemini-3.8-flash")
    assert len(refused.value.message) < 400


# --- changes reach the workers -----------------------------------------------------------------------


def test_a_key_change_takes_effect_soon_without_a_restart(
    make_authenticator, store: ClientKeys, clock: Clock
) -> None:
    authenticator = make_authenticator()
    assert identity(authenticator).problem is None
    secret = store.add("alice", Rules())
    clock.now += BETWEEN_LOOKS
    assert identity(authenticator).problem == "key_missing"
    assert identity(authenticator, secret).problem is None
    store.change("alice", lambda rules: replace(rules, networks=("8.8.8.8",)))
    clock.now += BETWEEN_LOOKS
    assert identity(authenticator, secret).problem == "key_not_from_here"
    store.revoke("alice")
    clock.now += BETWEEN_LOOKS
    assert identity(authenticator, secret).problem == "key_revoked"
    assert identity(authenticator).problem == "key_missing", (
        "a revoked key is still a key: nothing opens again"
    )


def test_the_key_file_is_not_read_between_two_checks(
    make_authenticator, store: ClientKeys, monkeypatch
) -> None:
    secret = store.add("alice", Rules())
    authenticator = make_authenticator()
    identity(authenticator, secret)
    monkeypatch.setattr(SqliteKeyStore, "version", lambda self: pytest.fail("read again"))
    for _ in range(100):
        assert identity(authenticator, secret, new_secret()).problem is None


def test_after_an_idle_hour_the_keys_are_read_again(
    make_authenticator, store: ClientKeys, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = store.add("alice", Rules())
    authenticator = make_authenticator()
    identity(authenticator, secret)
    store.revoke("alice")
    clock.now += 3600
    version = SqliteKeyStore.version
    monkeypatch.setattr(SqliteKeyStore, "version", lambda self: (time.sleep(0.2), version(self))[1])
    with ThreadPoolExecutor(8) as pool:
        assert {each.problem for each in pool.map(lambda _: identity(authenticator, secret), range(8))} == {
            "key_revoked"
        }


# --- the file cannot be read -------------------------------------------------------------------------


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """A connection of another process that can lock the file exclusively."""
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT", 0)
    with closing(sqlite3.connect(tmp_path / KEYS_FILE, isolation_level=None)) as holder:
        yield holder


def test_with_a_locked_key_file_only_known_keys_are_accepted(
    make_authenticator,
    store: ClientKeys,
    clock: Clock,
    locked: sqlite3.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = store.add("alice", Rules())
    authenticator = make_authenticator()
    identity(authenticator, secret)
    locked.execute("BEGIN EXCLUSIVE")
    for _ in range(3):
        clock.now += PAUSE_AFTER_FAILURE
        assert identity(authenticator, secret).problem is None
        assert identity(authenticator, "wrong").problem == "key_malformed"
        assert identity(authenticator).problem == "key_missing"
        with pytest.raises(TooBusy, match="cannot read its keys"):
            identity(authenticator, new_secret())  # it could be a newly added key
    assert [record.name for record in caplog.records] == [ring_module.__name__], "once"
    assert secret not in caplog.text
    locked.execute("ROLLBACK")
    clock.now += PAUSE_AFTER_FAILURE
    assert identity(authenticator, new_secret()).problem == "key_unknown"


def test_a_key_file_that_was_never_readable_accepts_no_key(
    make_authenticator, store: ClientKeys, clock: Clock, locked: sqlite3.Connection
) -> None:
    secret = store.add("alice", Rules())
    locked.execute("BEGIN EXCLUSIVE")
    authenticator, open_door = make_authenticator(), make_authenticator(BRIDGE_ACCESS__OPEN="true")
    for shown in ([], [secret], ["wrong"]):
        with pytest.raises(TooBusy):
            identity(authenticator, *shown)
        assert identity(open_door, *shown).problem is None
    locked.execute("ROLLBACK")
    clock.now += PAUSE_AFTER_FAILURE
    assert identity(authenticator, secret).problem is None


@pytest.mark.parametrize("content", [b"This is no database. " * 100, b""])
def test_a_corrupt_key_file_accepts_no_key(make_authenticator, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / KEYS_FILE
    path.write_bytes(content)
    if content:
        with pytest.raises(TooBusy):
            identity(make_authenticator(), "any")
    else:
        assert identity(make_authenticator(), "any").problem is None, "an empty file is an empty list"


def test_an_open_bridge_stays_open_when_its_empty_key_file_is_lost(
    make_authenticator, store: ClientKeys, clock: Clock, tmp_path: Path
) -> None:
    authenticator = make_authenticator()
    assert identity(authenticator, "any").problem is None
    (tmp_path / KEYS_FILE).write_bytes(b"This is no database. " * 100)
    clock.now += BETWEEN_LOOKS
    assert identity(authenticator, "any").problem is None


@pytest.mark.parametrize("content", [None, b"", b"This is no database. " * 100])
def test_a_lost_key_store_keeps_the_known_keys_valid(
    make_authenticator, store: ClientKeys, clock: Clock, tmp_path: Path, content: bytes | None
) -> None:
    secret = store.add("alice", Rules())
    authenticator = make_authenticator()
    assert identity(authenticator, secret).problem is None
    path = tmp_path / KEYS_FILE
    path.unlink() if content is None else path.write_bytes(content)
    clock.now += BETWEEN_LOOKS
    assert identity(authenticator, secret).key.name == "alice"
    assert identity(authenticator).problem == "key_missing"
    assert identity(authenticator, "any").problem == "key_malformed"
    with pytest.raises(TooBusy):
        identity(authenticator, new_secret())
    newcomer = make_authenticator()
    for shown in ([], [secret], ["any"]):
        with pytest.raises(TooBusy):
            identity(newcomer, *shown)


def test_without_keys_a_request_through_a_proxy_is_refused(
    make_authenticator, store: ClientKeys, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    authenticator = make_authenticator()
    assert identity(authenticator).problem is None
    assert not caplog.records
    assert identity(authenticator, forwarded=HERE).problem == "no_key_defined"
    refused = authenticator.authenticate(["any"], HERE, "", proxied=True)
    assert refused.problem == "no_key_defined"
    assert "gemini-bridge key add" in refused.told
    (warning,) = caplog.records
    assert "no key is defined" in warning.message
    assert identity(make_authenticator(BRIDGE_ACCESS__OPEN="true"), forwarded=HERE).problem is None
    secret = store.add("alice", Rules())
    clock.now += BETWEEN_LOOKS
    assert identity(authenticator, secret, forwarded=HERE).problem is None


# --- at the start ------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "bridge.example"])
def test_a_public_address_needs_keys_or_open_access(tmp_path: Path, store: ClientKeys, host: str) -> None:
    with pytest.raises(SettingsError) as refused:
        describe_access(settings(tmp_path, BRIDGE_SERVER__HOST=host))
    for part in (host, "gemini-bridge key add", "access.open = true"):
        assert part in str(refused.value)
    opened = settings(tmp_path, BRIDGE_SERVER__HOST=host, BRIDGE_ACCESS__OPEN="true")
    assert "open to everybody who can reach it" in describe_access(opened).text
    store.add("alice", Rules())
    assert describe_access(settings(tmp_path, BRIDGE_SERVER__HOST=host)).text == "a key is needed; 1 defined"


def test_a_loopback_address_is_open_until_a_key_exists(tmp_path: Path, store: ClientKeys) -> None:
    assert "open to everybody on this machine" in describe_access(settings(tmp_path)).text
    store.add("alice", Rules())
    assert describe_access(settings(tmp_path)).text == "a key is needed; 1 defined"


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_lost_key_store_is_reported_at_start_and_refuses_requests(
    tmp_path: Path, store: ClientKeys, host: str
) -> None:
    store.add("alice", Rules())
    (tmp_path / KEYS_FILE).unlink()
    told = describe_access(settings(tmp_path, BRIDGE_SERVER__HOST=host)).text
    assert f"{KEYS_FILE} is missing" in told
    assert "every request is refused until they can be read" in told


def test_an_unreadable_key_store_does_not_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / KEYS_FILE).write_bytes(b"This is no database. " * 100)
    told = describe_access(settings(tmp_path, BRIDGE_SERVER__HOST="0.0.0.0")).text
    assert "every request is refused until they can be read" in told
