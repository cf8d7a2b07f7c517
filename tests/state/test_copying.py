"""Copies of a whole state from SQLite to PostgreSQL and back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from command_line import attempt, command
from usage_rows import row

from bridge.settings import Settings, SettingsError, load
from bridge.settings.limits import Limits
from bridge.state import portable_tables
from bridge.state.conversation_store import KeptConversation
from bridge.state.copying import copy_state
from bridge.state.errors import DatabaseUnfit, SchemaTooNew, StorageError
from bridge.state.event_store import EventBatch
from bridge.state.key_store import NewSecret, Rules
from bridge.state.ledger import LimitedSubject
from bridge.state.portable_tables import Row, StoredTable
from bridge.state.postgres.tables import postgres_tables
from bridge.state.sqlite.tables import sqlite_tables
from bridge.state.usage_store import Refusal, UsageQuery
from tests.state.conftest import Backend, PostgresBackend, SqliteBackend

BOTH_WAYS = pytest.mark.parametrize(("source", "target"), [("sqlite", "postgres"), ("postgres", "sqlite")])
ALL_LIMITS = Limits(tokens_per_day=1000, cost_per_day=10.0)
NASTY = "ünïcode ' \" % \\ 🙂"


@pytest.fixture
def sqlite(tmp_path) -> SqliteBackend:
    (folder := tmp_path / "state").mkdir(exist_ok=True)
    return SqliteBackend(folder)


@pytest.fixture
def backends(sqlite: SqliteBackend, postgres: PostgresBackend) -> dict[str, Backend]:
    return {"sqlite": sqlite, "postgres": postgres}


@pytest.fixture
def settings(sqlite: SqliteBackend, postgres: PostgresBackend) -> Settings:
    return load(environ={"BRIDGE_STATE_URL": postgres.url, "BRIDGE_STATE_DIR": str(sqlite.folder)})


@pytest.fixture
def copy(settings: Settings) -> Callable[[str, str], dict[str, list[int]]]:
    def run(source: str, target: str) -> dict[str, list[int]]:
        return {name: counts for name, *counts in copy_state(settings, source, target, lambda *_: None)}

    return run


def fill(backend: Backend) -> None:
    """Something in every store."""
    keys = backend.keys()
    keys.add(
        "alice", Rules(owner=NASTY, models=("gemini-*",), limits=ALL_LIMITS), NewSecret(b"\x00digest", "abcd")
    )
    keys.add("bob", Rules(), NewSecret(b"bob", "efgh"))
    keys.rotate("alice", NewSecret(b"second", "ijkl"), 3600)
    keys.revoke("bob")
    usage, now = backend.usage(), time.time()
    usage.write([row(now - each, client=NASTY) for each in range(700)])
    usage.write([row(now, cost=None, first_byte=None, outcome="failed", error="busy", status=503)])
    usage.count_refusals({Refusal(day(0), "alice", "openai_chat", "rpm", "gpt-5"): 3})
    answers = backend.answers()
    for number in range(3):
        output = [{"id": f"msg_{number}", "type": "message", "content": NASTY}]
        previous = f"resp_{number - 1}" if number else None
        answers.keep("alice", {"id": f"resp_{number}", "output": output}, [{"q": NASTY}], previous, "talk")
    answers.cancel("alice", "resp_1")
    events = backend.events()
    events.append("alice", "resp_1", EventBatch(0, 1, b"data: 1\n\n"))
    events.append("alice", "resp_1", EventBatch(1, 1, b"data: 2\n\n", last=True))
    backend.agent_runs().add("guide-1", 0, b'{"run": "guide-1"}')
    items = [{"id": f"item_{number}", "text": NASTY} for number in (3, 1, 2)]
    conversations = backend.conversations()
    conversations.create("alice", KeptConversation("conv_1", 7, {"a": NASTY}), items)
    conversations.create("bob", KeptConversation("conv_2", 8, {}), [{"id": "item_1"}])
    backend.signatures().keep("alice", "gemini-3", {f"call-{NASTY}": "c2ln", "call-2": "c2ln"})
    backend.cooldowns().rest("a key", 600)
    backend.learnt_facts().learn("gone:gemini-1")
    backend.summaries().secret()
    ledger = backend.ledger()
    booking = ledger.enter([LimitedSubject("key_alice", "alice", ALL_LIMITS)]).booking
    assert booking is not None
    ledger.leave(booking, 100, 0.5)


def day(ago: int) -> str:
    return (datetime.now(UTC) - timedelta(days=ago)).date().isoformat()


def tables(backend: Backend) -> list[StoredTable]:
    if isinstance(backend, SqliteBackend):
        return sqlite_tables(backend.folder)
    return postgres_tables(backend.url)


def contents(backend: Backend) -> dict[str, list[Row]]:
    """All rows, in an order that does not depend on the backend. Sums of floating-point numbers depend on the
    order of the rows, so they are rounded."""
    found = {each.shape.name: [row for page in each.pages() for row in page] for each in tables(backend)}
    ordered = {name for name in found if name != "conversation items"}
    rounded = {
        name: [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in rows]
        for name, rows in found.items()
    }
    return {name: sorted(rows, key=repr) if name in ordered else rows for name, rows in rounded.items()}


@BOTH_WAYS
def test_a_copy_has_the_same_contents(backends, copy, source: str, target: str) -> None:
    fill(backends[source])
    counts = copy(source, target)
    copied = contents(backends[target])
    assert copied == contents(backends[source])
    assert all(copied.values()), "a table is empty, so its copy was not tested"
    # The rows of requests have made the sums of their days.
    assert all(each == [each[0], 0, each[0]] for name, each in counts.items() if name != "days")
    assert counts["requests"] == [701, 0, 701]


@BOTH_WAYS
def test_the_stores_of_the_target_serve_what_was_copied(backends, copy, source: str, target: str) -> None:
    fill(backends[source])
    copy(source, target)
    there = backends[target]
    keys = there.keys()
    assert [(key.name, key.revoked is None) for key in keys.all()] == [("alice", True), ("bob", False)]
    assert len(keys.secrets_of(keys.all()[0])) == 2
    chain = there.answers().chain("alice", "resp_2", lambda _: None)
    assert [each.id for each in chain or ()] == ["resp_0", "resp_1", "resp_2"]
    found = there.answers().find("alice", "resp_1")
    assert found is not None
    assert found.cancelled
    assert there.answers().conversation("resp_2") == "talk"
    assert there.answers().items_beside("alice", "msg_2", lambda _: None)[0]["content"] == NASTY
    assert [batch.last for batch in there.events().read("alice", "resp_1", 0)] == [False, True]
    items = there.conversations().items("alice", "conv_1")
    assert [item["id"] for item in items] == ["item_3", "item_1", "item_2"]
    assert there.conversations().append("alice", "conv_1", [{"id": "item_4"}])
    assert there.signatures().find("alice", "gemini-3", [f"call-{NASTY}"]) == {f"call-{NASTY}": "c2ln"}
    assert there.cooldowns().left("a key") > 500
    assert there.learnt_facts().knows("gone:gemini-1")
    (spent,) = there.ledger().look([LimitedSubject("key_alice", "alice", ALL_LIMITS)]).spent
    assert (spent.day_tokens, spent.day_cost) == (100, 0.5)
    today = datetime.now(UTC).date()
    (group,) = there.usage().sums(UsageQuery(("key",), today - timedelta(days=1), today))
    assert (group.sums.requests, group.sums.failed, group.sums.unpriced) == (701, 1, 1)


@BOTH_WAYS
def test_a_repeated_copy_adds_only_what_is_new(backends, copy, source: str, target: str) -> None:
    here, there = backends[source], backends[target]
    fill(here)
    copy(source, target)
    before = contents(there)
    copy(source, target)
    assert contents(there) == before
    there.usage().write([row(time.time(), key="target")])
    here.usage().write([row(time.time(), key="source")])
    here.answers().keep("alice", {"id": "resp_9", "output": []}, [], None)
    assert copy(source, target)["answers"] == [4, 3, 4]
    today = datetime.now(UTC).date()
    sums = there.usage().sums(UsageQuery(("key",), today - timedelta(days=1), today))
    assert {group.names: group.sums.requests for group in sums} == {
        ("alice",): 701,
        ("source",): 1,
        ("target",): 1,
    }


@BOTH_WAYS
def test_a_copy_and_the_way_back_change_nothing(backends, copy, source: str, target: str) -> None:
    fill(backends[source])
    before = contents(backends[source])
    copy(source, target)
    copy(target, source)
    assert contents(backends[source]) == before


@BOTH_WAYS
def test_a_key_that_was_revoked_in_the_target_stays_revoked(backends, copy, source: str, target: str) -> None:
    fill(backends[source])
    copy(source, target)
    backends[target].keys().revoke("alice")
    version = backends[target].keys().version()
    copy(source, target)
    assert all(key.revoked for key in backends[target].keys().all())
    assert backends[target].keys().version() != version, "the workers would not notice"


@BOTH_WAYS
def test_usage_without_rows_moves_as_sums_of_days(backends, copy, source: str, target: str) -> None:
    here = backends[source]
    here.usage().write([row(time.time() - 50 * 86400) for _ in range(3)])
    while here.usage().tidy():
        pass
    copy(source, target)
    since = datetime.now(UTC).date() - timedelta(days=60)
    (group,) = backends[target].usage().sums(UsageQuery(("key",), since, since + timedelta(days=60)))
    assert group.sums.requests == 3


@BOTH_WAYS
def test_keys_of_another_installation_are_refused_before_anything_is_written(
    backends, copy, source: str, target: str
) -> None:
    fill(backends[source])
    backends["sqlite"].folder.joinpath("keys.defined").unlink()  # the target belongs to another machine
    backends[target].keys().add("Alice", Rules(), NewSecret(b"other", "aaaa"))
    before = contents(backends[target])
    with pytest.raises(StorageError, match=r"other keys with these names: alice; .* empty target"):
        copy(source, target)
    assert contents(backends[target]) == before


@BOTH_WAYS
def test_pages_are_small_and_hold_every_row_once(
    backends, source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backends[source]
    answers = backend.answers(megabytes=100)
    for number in range(10):
        answers.keep("alice", {"id": f"resp_{number}", "output": [], "text": "x" * 1000}, [], None)
    table = next(each for each in tables(backend) if each.shape.name == "answers")
    monkeypatch.setattr(portable_tables, "MOST_BYTES", 2500)
    pages = [[row[0] for row in page] for page in table.pages()]
    assert [len(page) for page in pages] == [3, 3, 3, 1]
    assert sorted(row for page in pages for row in page) == [f"resp_{number}" for number in range(10)]
    monkeypatch.setattr(portable_tables, "MOST_ROWS", 2)
    assert [len(page) for page in table.pages()] == [2] * 5


def test_an_empty_state_copies_nothing_and_creates_no_file(sqlite, copy) -> None:
    counts = copy("sqlite", "postgres")
    assert all(each == [0, 0, 0] for each in counts.values())
    assert not list(sqlite.folder.iterdir())


def test_other_versions_of_the_tables_are_refused(sqlite, postgres, copy) -> None:
    fill(sqlite)
    with sqlite3.connect(sqlite.folder / "answers.sqlite3") as file:
        file.execute("PRAGMA user_version = 99")
    with pytest.raises(SchemaTooNew, match="newer version of the bridge"):
        copy("sqlite", "postgres")
    postgres.database().run("INSERT INTO gemini_bridge.migration (number, name) VALUES (9999, 'new')")
    with pytest.raises(DatabaseUnfit, match="Install that version here too"):
        copy("sqlite", "postgres")


def test_a_database_without_tables_is_refused(sqlite, server) -> None:
    url = server.new_database()
    settings = load(environ={"BRIDGE_STATE_URL": url, "BRIDGE_STATE_DIR": str(sqlite.folder)})
    with pytest.raises(DatabaseUnfit, match="run `gemini-bridge state upgrade`"):
        copy_state(settings, "sqlite", "postgres", lambda *_: None)


def test_missing_places_are_named(tmp_path, postgres) -> None:
    nowhere = str(tmp_path / "nowhere")
    with pytest.raises(SettingsError, match="BRIDGE_STATE_URL is not set"):
        copy_state(load(environ={"BRIDGE_STATE_DIR": nowhere}), "sqlite", "postgres", lambda *_: None)
    settings = load(environ={"BRIDGE_STATE_DIR": nowhere, "BRIDGE_STATE_URL": postgres.url})
    with pytest.raises(SettingsError, match=r"no state folder .*nowhere: set BRIDGE_STATE_DIR"):
        copy_state(settings, "sqlite", "postgres", lambda *_: None)


def test_the_command_prints_the_counts(sqlite, postgres) -> None:
    places = {"BRIDGE_STATE_URL": postgres.url, "BRIDGE_STATE_DIR": str(sqlite.folder)}
    command("key", "add", "alice", BRIDGE_STATE_DIR=str(sqlite.folder))
    lines = command("state", "copy", "--from", "sqlite", "--to", "postgres", **places).splitlines()
    assert lines[0].split() == ["rows", "of", "sqlite", "postgres", "before", "postgres", "after"]
    assert lines[1].split() == ["keys", "1", "0", "1"]
    assert "alice" in command("key", "list", **places)
    refused = attempt("state", "copy", "--from", "sqlite", "--to", "sqlite", **places)
    assert (refused.returncode, "must differ" in refused.stderr) == (2, True)


def test_progress_is_reported_for_each_table(sqlite, settings) -> None:
    fill(sqlite)
    seen: list[tuple[str, int, int]] = []
    copy_state(settings, "sqlite", "postgres", lambda *told: seen.append(told))
    assert [told for told in seen if told[0] == "requests"] == [
        ("requests", 0, 701),
        ("requests", 500, 701),
        ("requests", 701, 701),
    ]
