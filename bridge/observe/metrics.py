"""Metrics for Prometheus. All workers count into one folder of small files, so every worker shows all
counts.

There are few labels, and the number of their values is limited, because every new value is a new series that
never ends. Paths are no labels. A model is a label only if it is configured or has answered, and a key only
while there are few of them. Nothing is counted per chunk.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from bridge import __version__
from bridge.observe.metrics_folder import shared_folder
from bridge.observe.record import LOST, Record

__all__ = ["CONTENT_TYPE", "RequestMetrics", "exposition"]

NAMESPACE = "gemini_bridge"
NONE = "none"
OTHER = "other"
#: More models than any bridge serves. It limits the series if the upstream accepts any model name.
MOST_MODELS = 64
MOST_KEYS = 500  #: those that come later count together, as `other`
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)

disable_created_metrics()  # no extra series with the time at which each series began

REGISTRY = CollectorRegistry()
_ours: dict[str, Any] = {"namespace": NAMESPACE, "registry": REGISTRY}

_REQUESTS = Counter(
    "requests_total",
    "Requests that have ended, as many as lines in the access log",
    ("protocol", "model", "outcome", "error"),
    **_ours,
)
_DURATION = Histogram(
    "request_duration_seconds",
    "From the request's head until the answer's last event is ready, for requests that were sent to a model",
    ("model",),
    buckets=SECONDS,
    **_ours,
)
_FIRST_BYTE = Histogram(
    "first_byte_seconds",
    "From the request's head to the first event of a streamed answer",
    ("model",),
    buckets=SECONDS,
    **_ours,
)
_TOKENS = Counter(
    "tokens_total", "Tokens, each counted once: input is what was not cached", ("model", "kind"), **_ours
)
_KEY_REQUESTS = Counter(
    "key_requests_total",
    "Requests that have ended, by the name of the client's key",
    ("key", "outcome"),
    **_ours,
)
_KEY_COST = Counter(
    "key_cost_usd_total",
    "Cost in US dollars by the prices in prices.toml, by the name of the client's key",
    ("key",),
    **_ours,
)
_COST = Counter("cost_usd_total", "Cost in US dollars by the prices in prices.toml", ("model",), **_ours)
_CACHE = Counter(
    "request_cache_total",
    "Requests that asked for the request cache, by its result: hit, miss, refresh or off",
    ("result",),
    **_ours,
)
_SAVED = Counter(
    "saved_cost_usd_total",
    "What answers of the request cache would have cost, in US dollars by the prices in prices.toml",
    ("model",),
    **_ours,
)
_STREAMS = Gauge("streams_in_flight", "Streamed answers under way now", multiprocess_mode="livesum", **_ours)
_ENDLESS = Counter(
    "streams_without_terminal_event_total",
    "Streams that ended without their protocol's last event although the client was there: always 0",
    **_ours,
)
_UPSTREAM_REQUESTS = Counter(
    "upstream_requests_total",
    "Requests that were sent to a model, by the upstream that was asked last; only with upstreams.toml",
    ("upstream", "outcome", "error"),
    **_ours,
)
_UPSTREAM_ERRORS = Counter(
    "upstream_errors_total",
    "Attempts that failed, by upstream and error: also those that another attempt or upstream replaced",
    ("upstream", "error"),
    **_ours,
)
_RETRIES = Counter(
    "upstream_retries_total",
    "Requests sent to the upstream once more, by what had failed",
    ("error",),
    **_ours,
)
_COOLDOWNS = Counter(
    "upstream_cooldowns_total", "Upstream keys put to rest, by what was refused", ("error",), **_ours
)
_GUARDS = Counter("guard_actions_total", "What the guards did", ("guard", "action", "mode"), **_ours)
_NOTES = Counter(
    "notes_total", "What was repaired in histories, and what could not be carried", ("note",), **_ours
)
_CONTEXT_SAVED = Counter(
    "context_saved_tokens_total",
    "Estimated tokens that were removed from conversations that were too long, by the step that did it",
    ("step",),
    **_ours,
)
_ESTIMATE_ERROR = Histogram(
    "context_estimate_error_ratio",
    "How far the estimated tokens of a prompt were from the upstream's count, as a share of that count",
    ("model",),
    buckets=SHARES,
    **_ours,
)
_EXPERIMENTS = Counter(
    "experiment_requests_total",
    "Requests of experiments that were sent to a model, by experiment, arm and outcome",
    ("experiment", "arm", "outcome"),
    **_ours,
)
_SHADOWS = Counter(
    "shadow_requests_total",
    "Copies of requests for shadow arms, by their end: answered, failed, or the reason why the copy was "
    "dropped: busy, full, large, tools or spent",
    ("experiment", "arm", "end"),
    **_ours,
)
_DROPPED = Counter("accounts_rows_dropped_total", "Requests that are missing in the accounts", **_ours)
_FLIGHTS_DROPPED = Counter("flights_dropped_total", "Recordings of requests that could not be kept", **_ours)
_WAITED = Counter(
    "requests_without_place_total",
    "Requests that found no place in their worker, by how that ended: handed_on, served or refused",
    ("end",),
    **_ours,
)
_MEMORY = Gauge(
    "memory_booked_bytes",
    "Memory set aside for large requests under way, of server.memory_mb for each worker",
    multiprocess_mode="livesum",
    **_ours,
)
_MEMORY_REFUSED = Counter("memory_refused_total", "Requests refused for want of such memory", **_ours)


def waited_for_slot(end: str) -> None:
    _series(_WAITED, end).inc()


def memory_booked(cost: int) -> None:
    """A negative cost releases memory."""
    _MEMORY.inc(cost)


def memory_refused() -> None:
    _MEMORY_REFUSED.inc()


def stream_began() -> None:
    _STREAMS.inc()


def stream_ended() -> None:
    _STREAMS.dec()


def shadow_ended(experiment: str, arm: str, end: str) -> None:
    _series(_SHADOWS, experiment, arm, end).inc()


def usage_rows_dropped(rows: int) -> None:
    _DROPPED.inc(rows)


def flight_dropped() -> None:
    _FLIGHTS_DROPPED.inc()


@lru_cache(4096)
def _series(metric: Any, *labels: str) -> Any:
    """The series of these labels. It is cached: finding a series costs more than counting in it."""
    return metric.labels(*labels)


def free(record: Record) -> float:
    return 0.0


class RequestMetrics:
    """The observer that counts requests."""

    def __init__(
        self,
        models: Iterable[str],
        cost_of: Callable[[Record], float] = free,
        saved_cost_of: Callable[[Record], float] = free,
    ) -> None:
        self._models = set(models)
        self._cost_of = cost_of
        self._saved_cost_of = saved_cost_of
        self._keys: set[str] = set()

    def __call__(self, record: Record) -> None:
        model = self._label(record)
        error = record.error or NONE
        key = self._key(record)
        _series(_KEY_REQUESTS, key, record.outcome).inc()
        _series(_REQUESTS, record.protocol or NONE, model, record.outcome, error).inc()
        if record.asked_model:
            self._count_answer(record, model)
            self._count_cost(record, model, key)
            self._count_context(record, model)
            if record.upstream:
                _series(_UPSTREAM_REQUESTS, record.upstream, record.outcome, error).inc()
            if record.assignment is not None:
                experiment, arm, _ = record.assignment
                _series(_EXPERIMENTS, experiment, arm, record.outcome).inc()
        if record.cache:
            _series(_CACHE, record.cache).inc()
            if saved := self._saved_cost_of(record):
                _series(_SAVED, model).inc(saved)
        for failed in record.upstream_errors:
            _series(_UPSTREAM_ERRORS, *failed).inc()
        if record.outcome == LOST:
            _ENDLESS.inc()
        for note, times in record.notes.items():
            _series(*_of_note(note)).inc(times)

    def _count_answer(self, record: Record, model: str) -> None:
        _series(_DURATION, model).observe(record.seconds)
        if record.stream and record.seconds_to_first_byte is not None:
            _series(_FIRST_BYTE, model).observe(record.seconds_to_first_byte)
        tokens = record.tokens
        for kind, count in zip(tokens._fields, tokens, strict=True):
            if count:
                _series(_TOKENS, model, kind).inc(count)

    def _count_context(self, record: Record, model: str) -> None:
        for step in (*record.context_steps, *record.steps_in_shadow):
            _series(_CONTEXT_SAVED, step.name).inc(step.saved)
        if counted := record.counted_prompt:
            error = abs(record.expected_tokens - counted) / counted
            _series(_ESTIMATE_ERROR, model).observe(error)

    def _count_cost(self, record: Record, model: str, key: str) -> None:
        if cost := self._cost_of(record):
            _series(_COST, model).inc(cost)
            _series(_KEY_COST, key).inc(cost)

    def _key(self, record: Record) -> str:
        if record.key is None or record.key in self._keys:
            return record.key or NONE
        if len(self._keys) >= MOST_KEYS:
            return OTHER
        self._keys.add(record.key)
        return record.key

    def _label(self, record: Record) -> str:
        """Clients choose names, so an unknown name becomes a label only after the upstream answered to it."""
        model = record.upstream_model
        if model is None or model in self._models:
            return model or NONE
        answered = record.usage is not None and record.usage.raw
        if not answered or len(self._models) >= MOST_MODELS:
            return OTHER
        self._models.add(model)
        return model


#: Notes that are counted by the kind of their error.
_OF_ERRORS = {"retry": _RETRIES, "cooldown": _COOLDOWNS}


@lru_cache(4096)
def _of_note(note: str) -> tuple[Any, ...]:
    name = note.partition(":")[0]  # a text that the client chose may follow
    topic, _, error = name.partition(".")
    if topic in _OF_ERRORS:
        return _OF_ERRORS[topic], error
    if not name.startswith("guard."):
        return _NOTES, name
    _, guard, action, *shadow = name.split(".")
    return _GUARDS, guard, action, "shadow" if shadow else "enforce"


class _Moment(Collector):
    """Values that are read when the metrics are requested."""

    def __init__(self, accounts_bytes: int, rows_waiting: int, node: str) -> None:
        self._accounts_bytes = accounts_bytes
        self._rows_waiting = rows_waiting
        self._node = node

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily(
            f"{NAMESPACE}_build_info", "What is running: always 1", labels=("version", "python")
        )
        build.add_metric((__version__, platform.python_version()), 1)
        yield build
        node = GaugeMetricFamily(f"{NAMESPACE}_node_info", "The bridge's name: always 1", labels=("node",))
        node.add_metric((self._node,), 1)
        yield node
        yield GaugeMetricFamily(
            f"{NAMESPACE}_accounts_bytes", "Size of the accounts on disk", self._accounts_bytes
        )
        yield GaugeMetricFamily(
            f"{NAMESPACE}_usage_rows_waiting",
            "Requests in a local file that the state database has not counted yet",
            self._rows_waiting,
        )


def exposition(accounts_bytes: int = 0, rows_waiting: int = 0, node: str = "") -> bytes:
    """All metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Moment(accounts_bytes, rows_waiting, node))
    folder = shared_folder()
    registry.register(MultiProcessCollector(None, path=str(folder)) if _is_folder(folder) else REGISTRY)
    return generate_latest(registry)


def _is_folder(folder: Path | None) -> bool:
    return folder is not None and folder.is_dir()
