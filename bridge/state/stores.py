"""Opens all stores. No other module outside this folder knows where or how they keep their data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from bridge.settings import Settings, SettingsError
from bridge.state.agent_run_store import AgentRunStore
from bridge.state.answer_store import AnswerStore
from bridge.state.bridges import Bridges
from bridge.state.conversation_store import ConversationStore
from bridge.state.cooldown_store import CooldownStore
from bridge.state.database_health import DatabaseHealth
from bridge.state.event_store import EventStore
from bridge.state.flight_store import FlightStore
from bridge.state.key_store import KeyStore
from bridge.state.learnt_facts import LearntFactStore
from bridge.state.ledger import Ledger
from bridge.state.request_cache_store import RequestCacheStore
from bridge.state.signature_store import SignatureStore
from bridge.state.sqlite.agent_run_store import SqliteAgentRunStore
from bridge.state.sqlite.answer_store import SqliteAnswerStore
from bridge.state.sqlite.conversation_store import SqliteConversationStore
from bridge.state.sqlite.database import SqliteStore
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
from bridge.state.store import SERVING_PATIENCE, Store, StoreCheck
from bridge.state.summary_store import LARGEST_MB, SummaryStore
from bridge.state.upstream_failures import UpstreamFailureStore
from bridge.state.usage_store import UsageStore


@dataclass(frozen=True, slots=True)
class Stores:
    keys: KeyStore
    ledger: Ledger
    usage: UsageStore
    answers: AnswerStore
    events: EventStore
    conversations: ConversationStore
    signatures: SignatureStore
    cooldowns: CooldownStore
    learnt_facts: LearntFactStore
    upstream_failures: UpstreamFailureStore
    request_cache: RequestCacheStore
    flights: FlightStore
    summaries: SummaryStore
    agent_runs: AgentRunStore
    bridges: Bridges | None = None  #: those that share a database server

    def check(self) -> list[StoreCheck]:
        """Check the data of every store, without changing it."""
        return [store.check() for store in self._all()]

    def serve(self) -> None:
        """Start the threads that the stores need in a process that serves clients."""
        for store in self._all():
            store.serve()

    def _all(self) -> list[Store]:
        found = (getattr(self, each.name) for each in fields(self))
        return [store for store in found if store is not None]


def open_stores(settings: Settings, patience: float = SERVING_PATIENCE) -> Stores:
    """The stores of an installation. A store opens its file, or connects, when it is first used.
    Raises SettingsError if a package is missing. `patience`: seconds to wait for a database server."""
    return _postgres_stores(settings, patience) if settings.state.url else _sqlite_stores(settings)


def check_database(settings: Settings) -> None:
    """Raises DatabaseUnfit if the administrator must change something before the bridge can use the database.
    SQLite files are created and upgraded when they are opened."""
    if settings.state.url:
        with _needing_the_extra():
            from bridge.state.postgres import migrations
        migrations.check_database(settings.state.url)


def measure_database(settings: Settings) -> DatabaseHealth:
    """Only with an address of a database. Raises SettingsError if a package is missing, StorageError if the
    database cannot be used."""
    with _needing_the_extra():
        from bridge.state.postgres import health
    return health.measure(settings.state.url)


def upgrade(settings: Settings) -> list[str]:
    """Bring the tables up to date. Returns what was done, a line for each change."""
    if not settings.state.url:
        found = _sqlite_stores(settings)._all()
        return [line for store in found if isinstance(store, SqliteStore) for line in store.upgrade()]
    with _needing_the_extra():
        from bridge.state.postgres import migrations
    return migrations.upgrade(settings.state.url)


@contextmanager
def _needing_the_extra() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise SettingsError(
            "BRIDGE_STATE_URL is set, but the packages for PostgreSQL are not installed: "
            f"{sys.executable} -m pip install 'gemini-bridge[postgres]'"
        ) from None


def _postgres_stores(settings: Settings, patience: float) -> Stores:
    with _needing_the_extra():
        from bridge.state.postgres.stores import postgres_stores
    from bridge.state.away.ledger import FallbackLedger
    from bridge.state.away.usage_store import WaitingUsageStore
    from bridge.state.sqlite.local_ledger import SqliteLocalLedger
    from bridge.state.sqlite.waiting_rows import SqliteWaitingRows

    folder = settings.state.dir
    found = postgres_stores(settings, patience)
    found["usage"] = WaitingUsageStore(
        found["usage"], SqliteWaitingRows(folder / "usage_waiting.sqlite3"), found["bridges"]
    )
    found["ledger"] = FallbackLedger(
        found["ledger"],
        SqliteLocalLedger(folder / "limits_away.sqlite3"),
        SqliteWaitingRows(folder / "limits_waiting.sqlite3"),
        found["bridges"],
        folder / "bridges.alive",
    )
    return Stores(**found)


def _sqlite_stores(settings: Settings) -> Stores:
    folder = settings.state.dir
    accounts, responses, runs = settings.accounts, settings.responses, settings.agent_runs
    return Stores(
        keys=SqliteKeyStore(folder / "keys.sqlite3"),
        ledger=SqliteLedger(folder / "limits.sqlite3"),
        usage=SqliteUsageStore(
            folder / "accounts.sqlite3",
            days=accounts.days,
            request_days=accounts.request_days,
            megabytes=accounts.max_mb,
        ),
        answers=SqliteAnswerStore(folder / "answers.sqlite3", responses.store_days, responses.store_mb),
        events=SqliteEventStore(folder / "events.sqlite3", responses.store_days, responses.store_mb),
        conversations=SqliteConversationStore(
            folder / "conversations.sqlite3", responses.store_days, responses.store_mb
        ),
        signatures=SqliteSignatureStore(folder / "signatures.sqlite3"),
        cooldowns=SqliteCooldownStore(folder / "cooldowns.sqlite3"),
        learnt_facts=SqliteLearntFactStore(folder / "learnt.sqlite3"),
        upstream_failures=SqliteUpstreamFailureStore(folder / "failures.sqlite3"),
        request_cache=SqliteRequestCacheStore(folder / "cache.sqlite3", settings.cache.max_mb),
        flights=SqliteFlightStore(
            folder / "flights.sqlite3", settings.recorder.days, settings.recorder.megabytes
        ),
        summaries=SqliteSummaryStore(folder / "summaries.sqlite3", settings.context.summary_days, LARGEST_MB),
        agent_runs=SqliteAgentRunStore(folder / "agent_runs.sqlite3", runs.days, runs.max_mb),
    )
