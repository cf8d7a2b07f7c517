"""Metrics of the database server that keeps the state. Only a bridge with a database server has them."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from bridge.observe.metrics import NAMESPACE, REGISTRY, usage_rows_dropped
from bridge.periodic_thread import call_periodically
from bridge.state.bridges import Bridges
from bridge.state.store import StoreHealth
from bridge.state.usage_store import UsageStore

BETWEEN_LOOKS = 1.0


class StateMetrics:
    """Reads the state of the connections once a second: no request waits for it."""

    def __init__(self, bridges: Bridges, usage: UsageStore) -> None:
        self._bridges = bridges
        self._usage = usage
        self._seen = StoreHealth()
        self._dropped = 0
        self._thread = call_periodically(self, StateMetrics.look, BETWEEN_LOOKS)

    def look(self) -> None:
        health = self._bridges.health()
        _AWAY.set(health.away)
        _USED.set(health.used)
        _SIZE.set(health.size)
        _OUTAGES.inc(health.outages - self._seen.outages)
        usage_rows_dropped(self._usage.dropped - self._dropped)
        self._seen, self._dropped = health, self._usage.dropped


_AWAY = Gauge(
    "state_database_away",
    "Workers that do not use the state database until it answers again",
    namespace=NAMESPACE,
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
_USED = Gauge(
    "state_connections_used",
    "Connections to the state database that calls use now",
    namespace=NAMESPACE,
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
_SIZE = Gauge(
    "state_connections",
    "Connections to the state database in the pools of all workers",
    namespace=NAMESPACE,
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
_OUTAGES = Counter(
    "state_outages_total",
    "Times that a worker lost the state database",
    namespace=NAMESPACE,
    registry=REGISTRY,
)
