"""This version reads and writes the state files of earlier versions."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest
from client_keys import ClientKeys

from bridge.settings.limits import Limits
from bridge.state.key_store import Rules
from bridge.state.ledger import LimitedSubject
from bridge.state.sqlite.answer_store import SqliteAnswerStore
from bridge.state.sqlite.expiring_names import SqliteCooldownStore
from bridge.state.sqlite.ledger import SqliteLedger
from bridge.state.sqlite.signature_store import SqliteSignatureStore
from bridge.state.sqlite.usage_store import SqliteUsageStore
from bridge.state.usage_store import Refusal, UsageQuery, UsageRow, UsageSums, total

HERE = Path(__file__).parent
VERSIONS = sorted(HERE.glob("files_of_*"))
#: The time at which the files were written, by the stores' clock.
THEN = 1_900_000_000.0
DAY = date(2030, 3, 17)
OWNER = "key:k"


def then() -> float:
    return THEN


@pytest.fixture(params=VERSIONS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(request.param, tmp_path / "state"))


def test_files_of_earlier_versions_exist() -> None:
    assert VERSIONS


def test_keys(folder: Path) -> None:
    store = ClientKeys(folder, then)
    alice, bob = sorted(store.all(), key=lambda key: key.name)
    limits = Limits(1, 2, 3, 4.5, 6)
    assert alice.rules == Rules("Alice", ("gemini-*", "gpt-5"), ("10.0.0.0/8",), THEN + 365 * 86400, limits)
    assert (alice.revoked, bob.revoked) == (None, THEN)
    assert len(store.secrets_by_digest()) == 2
    store.add("carol", Rules())
    store.rotate("alice", 60)
    assert len(store.secrets_by_digest()) == 4


def test_limits(folder: Path) -> None:
    ledger = SqliteLedger(folder / "limits.sqlite3", then)
    subjects = [LimitedSubject(OWNER, "", Limits(requests_per_minute=9, tokens_per_day=1000, streams=4))]
    (spent,) = ledger.look(subjects).spent
    assert (spent.day_tokens, spent.day_cost, spent.running) == (70, 1.5, 1)
    assert sum(second.requests for second in spent.seconds) == 2
    assert ledger.enter(subjects).booking
    assert sum(second.requests for second in ledger.look(subjects).spent[0].seconds) == 3


def test_usage(folder: Path) -> None:
    store = SqliteUsageStore(folder / "accounts.sqlite3", days=400, request_days=31, megabytes=16, now=then)
    for by in (("day",), ("tier",)):
        (group,) = store.sums(UsageQuery(by, DAY, DAY))
        assert group.sums == UsageSums(1, 0, 0, 0, 10, 5, 3, 2, 0.25)
    assert [tuple(row) for row in store.refusals(UsageQuery(("day",), DAY, DAY))] == [
        ("alice", "key.models", "gpt-5", 3)
    ]
    assert store.experiment_requests("pro", DAY, DAY) == [], "the file is read before it is upgraded"
    answered = ("alice", "openai_chat", "codex", "gpt-5", "gemini-3.1-pro-preview")
    store.write([UsageRow(THEN, *answered, 1, 1, 1, 1, 0.75, 1.5, 0.2, "completed", "", 200, "")])
    store.count_refusals({Refusal(DAY.isoformat(), "alice", "openai_chat", "key.models", "gpt-5"): 1})
    assert total(store.sums(UsageQuery(("key",), DAY, DAY))).cost == 1.0
    assert store.refusals(UsageQuery(("key",), DAY, DAY))[0].requests == 4


def test_answers(folder: Path) -> None:
    store = SqliteAnswerStore(folder / "answers.sqlite3", 30, 16, then)
    chain = store.chain(OWNER, "resp_2", lambda _size: None)
    assert [turn.id for turn in chain] == ["resp_1", "resp_2"]
    assert chain[0].question == [{"role": "user", "content": "Hello"}]
    assert store.conversation("resp_2") == "conv"
    assert store.find("key:other", "resp_1") is None
    store.keep(OWNER, {"id": "resp_3", "status": "completed", "output": []}, [], "resp_2", "conv")
    assert len(store.chain(OWNER, "resp_3", lambda _size: None)) == 3


def test_signatures(folder: Path) -> None:
    store = SqliteSignatureStore(folder / "signatures.sqlite3", then)
    assert store.find(OWNER, "gemini-3", ["call_1"]) == {"call_1": "signature one"}
    assert store.find("key:other", "gemini-3", ["call_1"]) == {}
    store.keep(OWNER, "gemini-3", {"call_2": "signature two"})
    assert len(store.find(OWNER, "gemini-3", ["call_1", "call_2"])) == 2


def test_cooldowns(folder: Path) -> None:
    cooldowns = SqliteCooldownStore(folder / "cooldowns.sqlite3")
    assert cooldowns.left("model:gemini-x") > 0
    cooldowns.rest("model:gemini-y", 60)
    assert cooldowns.left("model:gemini-y") > 0
