"""The backends of the state layer. Every contract test runs with each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pgbouncer import PgBouncer, needs_pgbouncer, pgbouncer
from postgres_server import PostgresServer, postgres_server

from bridge.state.agent_run_store import AgentRunStore
from bridge.state.answer_store import AnswerStore
from bridge.state.conversation_store import ConversationStore
from bridge.state.cooldown_store import CooldownStore
from bridge.state.event_store import EventStore
from bridge.state.flight_store import FlightStore
from bridge.state.key_store import KeyStore
from bridge.state.learnt_facts import LearntFactStore
from bridge.state.ledger import Ledger
from bridge.state.postgres.agent_run_store import PostgresAgentRunStore
from bridge.state.postgres.answer_store import PostgresAnswerStore
from bridge.state.postgres.conversation_store import PostgresConversationStore
from bridge.state.postgres.database import Database
from bridge.state.postgres.event_store import PostgresEventStore
from bridge.state.postgres.expiring_names import (
    PostgresCooldownStore,
    PostgresLearntFactStore,
    PostgresUpstreamFailureStore,
)
from bridge.state.postgres.flight_store import PostgresFlightStore
from bridge.state.postgres.key_store import PostgresKeyStore
from bridge.state.postgres.ledger import PostgresLedger, by_the_server
from bridge.state.postgres.migrations import upgrade
from bridge.state.postgres.request_cache_store import PostgresRequestCacheStore
from bridge.state.postgres.signature_store import PostgresSignatureStore
from bridge.state.postgres.summary_store import PostgresSummaryStore
from bridge.state.postgres.usage_store import PostgresUsageStore
from bridge.state.request_cache_store import RequestCacheStore
from bridge.state.signature_store import SignatureStore
from bridge.state.sqlite.agent_run_store import SqliteAgentRunStore
from bridge.state.sqlite.answer_store import SqliteAnswerStore
from bridge.state.sqlite.conversation_store import SqliteConversationStore
from bridge.state.sqlite.event_store import SqliteEventStore
from bridge.state.sqlite.expiring_names import (
    SqliteCooldownStore,
    SqliteLearntFactStore,
    SqliteUpstreamFailureStore,
)
from bridge.state.sqlite.flight_store import SqliteFlightStore
from bridge.state.sqlite.key_store import SqliteKeyStore
from bridge.state.sqlite.ledger import SqliteLedger
from bridge.state.sqlite.request_cache_store import SqliteRequestCacheStore
from bridge.state.sqlite.signature_store import SqliteSignatureStore
from bridge.state.sqlite.summary_store import SqliteSummaryStore
from bridge.state.sqlite.usage_store import SqliteUsageStore
from bridge.state.summary_store import SummaryStore
from bridge.state.upstream_failures import UpstreamFailureStore
from bridge.state.usage_store import UsageStore

Now = Callable[[], float]


class Clock:
    def __init__(self) -> None:
        self.now = 20_000 * 86400 + 43200.0  # noon, UTC

    def __call__(self) -> float:
        return self.now


class SqliteBackend:
    """Each call opens the store as another worker does: all of them share the data of one folder."""

    name = "sqlite"

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

    def upstream_failures(self, now: Now = time.time) -> UpstreamFailureStore:
        return SqliteUpstreamFailureStore(self.folder / "failures.sqlite3", now)

    def request_cache(self, now: Now = time.time, megabytes: int = 9) -> RequestCacheStore:
        return SqliteRequestCacheStore(self.folder / "cache.sqlite3", megabytes, now)

    def flights(self, now: Now = time.time, days: float = 3, megabytes: int = 9) -> FlightStore:
        return SqliteFlightStore(self.folder / "flights.sqlite3", days, megabytes, now)

    def summaries(self, now: Now = time.time, days: float = 30, megabytes: int = 9) -> SummaryStore:
        return SqliteSummaryStore(self.folder / "summaries.sqlite3", days, megabytes, now)

    def agent_runs(self, now: Now = time.time, days: float = 30, megabytes: int = 9) -> AgentRunStore:
        return SqliteAgentRunStore(self.folder / "agent_runs.sqlite3", days, megabytes, now)


class PostgresBackend:
    """Each call opens the store as another bridge does: all of them share one database."""

    name = "postgres"

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    def through(self, bouncer: PgBouncer) -> PostgresBackend:
        return PostgresBackend(self.folder, bouncer.url(self.url))

    def database(self) -> Database:
        return Database(self.url, patience=5.0)  # the machine of the tests may be busy

    def keys(self, now: Now = time.time) -> KeyStore:
        return PostgresKeyStore(self.database(), self.folder, now)

    def ledger(self, now: Now | None = None) -> Ledger:
        return PostgresLedger(self.database(), now or by_the_server)

    def usage(self, now: Now = time.time, megabytes: int = 256) -> UsageStore:
        return PostgresUsageStore(self.database(), days=400, request_days=31, megabytes=megabytes, now=now)

    def answers(self, now: Now | None = None, days: float = 30, megabytes: int = 9) -> AnswerStore:
        return PostgresAnswerStore(self.database(), days, megabytes, now or by_the_server)

    def events(self, now: Now | None = None, days: float = 30, megabytes: int = 9) -> EventStore:
        return PostgresEventStore(self.database(), days, megabytes, now or by_the_server)

    def conversations(
        self, now: Now | None = None, days: float = 30, megabytes: int = 9
    ) -> ConversationStore:
        return PostgresConversationStore(self.database(), days, megabytes, now or by_the_server)

    def signatures(self, now: Now | None = None) -> SignatureStore:
        return PostgresSignatureStore(self.database(), now)

    def cooldowns(self, now: Now | None = None) -> CooldownStore:
        return PostgresCooldownStore(self.database(), now)

    def learnt_facts(self, now: Now | None = None) -> LearntFactStore:
        return PostgresLearntFactStore(self.database(), now)

    def upstream_failures(self, now: Now | None = None) -> UpstreamFailureStore:
        return PostgresUpstreamFailureStore(self.database(), now)

    def request_cache(self, now: Now | None = None, megabytes: int = 9) -> RequestCacheStore:
        return PostgresRequestCacheStore(self.database(), megabytes, now or by_the_server)

    def flights(self, now: Now | None = None, days: float = 3, megabytes: int = 9) -> FlightStore:
        return PostgresFlightStore(self.database(), days, megabytes, now or by_the_server)

    def summaries(self, now: Now | None = None, days: float = 30, megabytes: int = 9) -> SummaryStore:
        return PostgresSummaryStore(self.database(), days, megabytes, now or by_the_server)

    def agent_runs(self, now: Now | None = None, days: float = 30, megabytes: int = 9) -> AgentRunStore:
        return PostgresAgentRunStore(self.database(), days, megabytes, now or by_the_server)


Backend = SqliteBackend | PostgresBackend


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture(scope="session")
def template(server: PostgresServer) -> str:
    """The name of a database with the bridge's tables, of which tests get copies."""
    url = server.new_database()
    upgrade(url)
    return url.rpartition("/")[2]


@pytest.fixture
def postgres(server: PostgresServer, template: str, tmp_path: Path) -> PostgresBackend:
    return PostgresBackend(tmp_path / "state", server.new_database(template))


@pytest.fixture(scope="session")
def bouncer(server: PostgresServer) -> Iterator[PgBouncer]:
    with pgbouncer(server) as running:
        yield running


@pytest.fixture
def through_pgbouncer(postgres: PostgresBackend, bouncer: PgBouncer) -> PostgresBackend:
    return postgres.through(bouncer)


@pytest.fixture(params=["sqlite", "postgres", pytest.param("through_pgbouncer", marks=needs_pgbouncer)])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    if request.param == "sqlite":
        return SqliteBackend(tmp_path / "state")
    found: PostgresBackend = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()
