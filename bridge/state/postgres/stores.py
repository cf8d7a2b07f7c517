"""All stores of one PostgreSQL database. They share one pool."""

from __future__ import annotations

from typing import Any

from bridge.settings import Settings
from bridge.state.postgres.agent_run_store import PostgresAgentRunStore
from bridge.state.postgres.answer_store import PostgresAnswerStore
from bridge.state.postgres.bridges import PostgresBridges
from bridge.state.postgres.conversation_store import PostgresConversationStore
from bridge.state.postgres.database import Database
from bridge.state.postgres.event_store import PostgresEventStore
from bridge.state.postgres.expiring_names import (
    PostgresCooldownStore,
    PostgresLearntFactStore,
    PostgresUpstreamFailureStore,
)
from bridge.state.postgres.flight_store import PostgresFlightStore
from bridge.state.postgres.ledger import PostgresLedger
from bridge.state.postgres.remembered_keys import RememberingKeyStore
from bridge.state.postgres.request_cache_store import PostgresRequestCacheStore
from bridge.state.postgres.signature_store import PostgresSignatureStore
from bridge.state.postgres.summary_store import PostgresSummaryStore
from bridge.state.postgres.usage_store import PostgresUsageStore
from bridge.state.summary_store import LARGEST_MB


def postgres_stores(settings: Settings, patience: float) -> dict[str, Any]:
    """The fields of `bridge.state.stores.Stores`."""
    database = Database(settings.state.url, patience)
    ledger = PostgresLedger(database)
    accounts, responses, runs = settings.accounts, settings.responses, settings.agent_runs
    return {
        "keys": RememberingKeyStore(database, settings.state.dir),
        "ledger": ledger,
        "bridges": PostgresBridges(database, ledger, settings.state.dir),
        "usage": PostgresUsageStore(
            database,
            days=accounts.days,
            request_days=accounts.request_days,
            megabytes=accounts.max_mb,
        ),
        "answers": PostgresAnswerStore(database, responses.store_days, responses.store_mb),
        "events": PostgresEventStore(database, responses.store_days, responses.store_mb),
        "conversations": PostgresConversationStore(database, responses.store_days, responses.store_mb),
        "signatures": PostgresSignatureStore(database),
        "cooldowns": PostgresCooldownStore(database),
        "learnt_facts": PostgresLearntFactStore(database),
        "upstream_failures": PostgresUpstreamFailureStore(database),
        "request_cache": PostgresRequestCacheStore(database, settings.cache.max_mb),
        "flights": PostgresFlightStore(database, settings.recorder.days, settings.recorder.megabytes),
        "summaries": PostgresSummaryStore(database, settings.context.summary_days, LARGEST_MB),
        "agent_runs": PostgresAgentRunStore(database, runs.days, runs.max_mb),
    }
