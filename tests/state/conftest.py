"""The backends of the state layer. Every contract test runs with each of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.state.answer_store import AnswerStore
from bridge.state.conversation_store import ConversationStore
from bridge.state.cooldown_store import CooldownStore
from bridge.state.event_store import EventStore
from bridge.state.key_store import KeyStore
from bridge.state.learnt_facts import LearntFactStore
from bridge.state.ledger import Ledger
from bridge.state.signature_store import SignatureStore
from bridge.state.sqlite.answer_store import SqliteAnswerStore
from bridge.state.sqlite.conversation_store import SqliteConversationStore
from bridge.state.sqlite.event_store import SqliteEventStore
from bridge.state.sqlite.expiring_names import SqliteCooldownStore, SqliteLearntFactStore
from bridge.state.sqlite.key_store import SqliteKeyStore
from bridge.state.sqlite.ledger import SqliteLedger
from bridge.state.sqlite.signature_store import SqliteSignatureStore
from bridge.state.sqlite.usage_store import SqliteUsageStore
from bridge.state.usage_store import UsageStore

Now = Callable[[], float]


class Clock:
    def __init__(self) -> None:
        self.now = 20_000 * 86400 + 43200.0  # noon, UTC

    def __call__(self) -> float:
        return self.now


class SqliteBackend:
    """Each call opens the store as another worker does: all of them share the data of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keys(self, now: Now = time.time) -> KeyStore:
        return SqliteKeyStore(self.folder / "keys.sqlite3", now)

    def ledger(self, now: Now = time.time) -> Ledger:
        return SqliteLedger(self.folder / "limits.sqlite3", now)

    def usage(self, now: Now = time.time, megabytes: int = 256) -> UsageStore:
        path = self.folder / "accounts.sqlite3"
        return SqliteUsageStore(path, days=400, request_days=31, megabytes=megabytes, now=now)

    def answers(self, now: Now = time.time, days: float = 30, megabytes: int = 9) -> AnswerStore:
        return SqliteAnswerStore(self.folder / "answers.sqlite3", days, megabytes, now)

    def events(self, now: Now = time.time, days: float = 30, megabytes: int = 9) -> EventStore:
        return SqliteEventStore(self.folder / "events.sqlite3", days, megabytes, now)

    def conversations(self, now: Now = time.time, days: float = 30, megabytes: int = 9) -> ConversationStore:
        return SqliteConversationStore(self.folder / "conversations.sqlite3", days, megabytes, now)

    def signatures(self, now: Now = time.time) -> SignatureStore:
        return SqliteSignatureStore(self.folder / "signatures.sqlite3", now)

    def cooldowns(self, now: Now = time.time) -> CooldownStore:
        return SqliteCooldownStore(self.folder / "cooldowns.sqlite3", now)

    def learnt_facts(self, now: Now = time.time) -> LearntFactStore:
        return SqliteLearntFactStore(self.folder / "learnt.sqlite3", now)


BACKENDS = {"sqlite": SqliteBackend}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteBackend:
    return BACKENDS[request.param](tmp_path / "state")


@pytest.fixture
def clock() -> Clock:
    return Clock()
