"""Sums over the usage. They can be read while the service writes: neither waits for the other.

Each report opens the file for itself and read-only. The command line may run as another user than the
service, and must not create or migrate its file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from bridge.state.sqlite.database import storage_error
from bridge.state.sqlite.migrations import Schema, has_column, has_table, version_of
from bridge.state.usage_store import (
    DAY_GROUPINGS,
    GROUPINGS,
    ExperimentRequest,
    RefusalSum,
    UsageGroup,
    UsageQuery,
    UsageSums,
)

T = TypeVar("T")

#: Seconds to wait for a lock.
TIMEOUT = 5.0

_DAY_COLUMNS: Mapping[str, str] = {name: name for name in DAY_GROUPINGS}
_REQUEST_COLUMNS: Mapping[str, str] = {
    **{name: name.replace("-", "_") for name in GROUPINGS},
    "day": "date(at, 'unixepoch')",
}

_TOKENS = "sum(input), sum(cached), sum(output), sum(reasoning)"
_FROM_CACHE = "sum(from_cache), total(saved)"
_FROM_DAYS = (
    f"sum(requests), sum(failed), sum(client_left), sum(unpriced), {_TOKENS}, sum(cost), {_FROM_CACHE}"
)
_FROM_REQUESTS = (
    "count(*), sum(outcome = 'failed'), sum(outcome = 'client_left'), sum(cost IS NULL), "
    f"{_TOKENS}, total(cost), {_FROM_CACHE}"
)
_LARGEST_FIRST = "total(cost) DESC, sum(input + cached + output + reasoning) DESC"


def sums(path: Path, schema: Schema, query: UsageQuery) -> list[UsageGroup]:
    def read(database: sqlite3.Connection) -> list[UsageGroup]:
        if not (has_table(database, "day") and has_table(database, "request")):
            return []
        select, values = _from_requests(query, database) if query.needs_requests else _from_days(query)
        if not has_column(database, "day", "from_cache"):  # a file of 0.1.0 that was not migrated yet
            select = select.replace(_FROM_CACHE, "0, 0.0")
        width = len(query.by)
        rows = database.execute(select, values).fetchall()
        return [UsageGroup(tuple(row[:width]), UsageSums(*row[width:])) for row in rows]

    return _read(path, schema, read, [])


def refusals(path: Path, schema: Schema, query: UsageQuery) -> list[RefusalSum]:
    values = [query.since.isoformat(), query.until.isoformat()]
    where = "day BETWEEN ? AND ?"
    if query.key is not None:
        where, values = f"{where} AND key = ?", [*values, query.key]
    select = (
        f"SELECT key, rule, model, sum(requests) FROM refusal WHERE {where}"
        " GROUP BY key, rule, model ORDER BY 4 DESC, 1, 2, 3"
    )

    def read(database: sqlite3.Connection) -> list[RefusalSum]:
        rows = database.execute(select, values) if has_table(database, "refusal") else ()
        return [RefusalSum(*row) for row in rows]

    return _read(path, schema, read, [])


def experiment_requests(
    path: Path, schema: Schema, experiment: str, since: date, until: date
) -> list[ExperimentRequest]:
    select = (
        "SELECT key, conversation, arm, assignment, input, cached, cost, seconds,"
        " CASE WHEN streamed THEN first_byte END, outcome = 'failed', malformed, fallbacks FROM request"
        " WHERE experiment = ? AND experiment != '' AND at >= ? AND at < ? ORDER BY at, id"
    )
    values = (experiment, _midnight(since), _midnight(until + timedelta(days=1)))

    def read(database: sqlite3.Connection) -> list[ExperimentRequest]:
        if not has_column(database, "request", "experiment"):  # no request was made since the upgrade
            return []
        found = database.execute(select, values)
        return [ExperimentRequest(*row)._replace(failed=bool(row[9])) for row in found]

    return _read(path, schema, read, [])


def _read(path: Path, schema: Schema, work: Callable[[sqlite3.Connection], T], nothing: T) -> T:
    if not path.exists():
        return nothing
    try:
        with closing(_opened(path)) as database:
            version_of(database, schema, str(path))  # refuses the tables of a newer version
            return work(database)
    except (sqlite3.Error, OSError) as error:
        raise storage_error(path, error) from error


def _from_days(query: UsageQuery) -> tuple[str, list[Any]]:
    days = [query.since.isoformat(), query.until.isoformat()]
    return _select("day", query, _DAY_COLUMNS, _FROM_DAYS, "day BETWEEN ? AND ?", days)


def _from_requests(query: UsageQuery, database: sqlite3.Connection) -> tuple[str, list[Any]]:
    columns = _REQUEST_COLUMNS
    if not has_column(database, "request", "tier"):  # a file from before 0.1.0 that was not migrated yet
        columns = {**columns, "tier": "''"}
    moments = [_midnight(query.since), _midnight(query.until + timedelta(days=1))]
    return _select("request", query, columns, _FROM_REQUESTS, "at >= ? AND at < ?", moments)


def _select(
    table: str, query: UsageQuery, columns: Mapping[str, str], sums: str, where: str, values: list[Any]
) -> tuple[str, list[Any]]:
    groups = ", ".join(columns[name] for name in query.by)
    if query.key is not None:
        where, values = f"{where} AND key = ?", [*values, query.key]
    order = groups if "day" in query.by else _LARGEST_FIRST
    return f"SELECT {groups}, {sums} FROM {table} WHERE {where} GROUP BY {groups} ORDER BY {order}", values


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _opened(path: Path) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode=ro"
    database = sqlite3.connect(address, uri=True, timeout=TIMEOUT)
    try:
        has_table(database, "request")
    except sqlite3.OperationalError:
        database.close()
        if path.with_name(f"{path.name}-wal").exists():
            raise
        # No process writes, and this one must not: the file can be read without locks.
        return sqlite3.connect(f"{address}&immutable=1", uri=True, timeout=TIMEOUT)
    return database
