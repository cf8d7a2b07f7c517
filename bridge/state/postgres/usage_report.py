"""Sums over the usage in PostgreSQL. Reading waits for no writer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from bridge.state.postgres.database import Database
from bridge.state.store import PATIENT
from bridge.state.usage_store import (
    DAY_GROUPINGS,
    GROUPINGS,
    ExperimentRequest,
    RefusalSum,
    UsageGroup,
    UsageQuery,
    UsageSums,
)

_DAY_COLUMNS: Mapping[str, str] = {**{name: name for name in DAY_GROUPINGS}, "day": "day::text"}
_REQUEST_COLUMNS: Mapping[str, str] = {
    **{name: name.replace("-", "_") for name in GROUPINGS},
    "day": "(to_timestamp(at) AT TIME ZONE 'UTC')::date::text",
}

_TOKENS = "sum(input)::bigint, sum(cached)::bigint, sum(output)::bigint, sum(reasoning)::bigint"
_FROM_CACHE = "sum(from_cache)::bigint, sum(saved)"
_FROM_DAYS = (
    "sum(requests)::bigint, sum(failed)::bigint, sum(client_left)::bigint, sum(unpriced)::bigint, "
    f"{_TOKENS}, sum(cost), {_FROM_CACHE}"
)
_FROM_REQUESTS = (
    "count(*), count(*) FILTER (WHERE outcome = 'failed'), count(*) FILTER (WHERE outcome = 'client_left'), "
    f"count(*) FILTER (WHERE cost IS NULL), {_TOKENS}, coalesce(sum(cost), 0), {_FROM_CACHE}"
)
_LARGEST_FIRST = "coalesce(sum(cost), 0) DESC, sum(input + cached + output + reasoning) DESC"


def sums(database: Database, query: UsageQuery) -> list[UsageGroup]:
    select, values = _from_requests(query) if query.needs_requests else _from_days(query)
    width = len(query.by)
    rows = database.run(select, values, patience=PATIENT)
    return [UsageGroup(tuple(row[:width]), UsageSums(*row[width:])) for row in rows]


def refusals(database: Database, query: UsageQuery) -> list[RefusalSum]:
    where, values = _of_key(query, "day BETWEEN %s AND %s", [query.since, query.until])
    select = (
        f"SELECT key, rule, model, sum(requests)::bigint FROM gemini_bridge.refusal WHERE {where}"
        " GROUP BY key, rule, model ORDER BY 4 DESC, 1, 2, 3"
    )
    return [RefusalSum(*row) for row in database.run(select, values, patience=PATIENT)]


def experiment_requests(
    database: Database, experiment: str, since: date, until: date
) -> list[ExperimentRequest]:
    select = (
        "SELECT key, conversation, arm, assignment, input, cached, cost, seconds,"
        " CASE WHEN streamed > 0 THEN first_byte END, outcome = 'failed', malformed, fallbacks"
        " FROM gemini_bridge.request"
        " WHERE experiment = %s AND experiment <> '' AND at >= %s AND at < %s ORDER BY at, id"
    )
    values = [experiment, _midnight(since), _midnight(until + timedelta(days=1))]
    return [ExperimentRequest(*row) for row in database.run(select, values, patience=PATIENT)]


def _from_days(query: UsageQuery) -> tuple[str, list[Any]]:
    days = [query.since, query.until]
    return _select("usage_day", query, _DAY_COLUMNS, _FROM_DAYS, "day BETWEEN %s AND %s", days)


def _from_requests(query: UsageQuery) -> tuple[str, list[Any]]:
    moments = [_midnight(query.since), _midnight(query.until + timedelta(days=1))]
    return _select("request", query, _REQUEST_COLUMNS, _FROM_REQUESTS, "at >= %s AND at < %s", moments)


def _select(
    table: str, query: UsageQuery, columns: Mapping[str, str], sums: str, where: str, values: list[Any]
) -> tuple[str, list[Any]]:
    where, values = _of_key(query, where, values)
    groups = ", ".join(columns[name] for name in query.by)
    places = ", ".join(str(place + 1) for place in range(len(query.by)))
    order = places if "day" in query.by else _LARGEST_FIRST
    select = f"SELECT {groups}, {sums} FROM gemini_bridge.{table} WHERE {where}"
    return f"{select} GROUP BY {places} ORDER BY {order}", values


def _of_key(query: UsageQuery, where: str, values: list[Any]) -> tuple[str, list[Any]]:
    return (where, values) if query.key is None else (f"{where} AND key = %s", [*values, query.key])


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
