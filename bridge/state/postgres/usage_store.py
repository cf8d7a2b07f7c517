"""Usage in PostgreSQL. A trigger adds each batch of rows to the sums of its days, in the same transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from bridge.state.postgres import usage_report
from bridge.state.postgres.connection import Connection
from bridge.state.postgres.database import Database, PostgresStore
from bridge.state.store import PATIENT
from bridge.state.usage_store import (
    MOST_REFUSALS,
    ExperimentRequest,
    Refusal,
    RefusalSum,
    UsageGroup,
    UsageQuery,
    UsageRow,
    UsageStore,
)

DAY = 24 * 3600
#: The most rows that one step of tidying deletes, which takes milliseconds.
ROWS_IN_A_STEP = 1000

#: The columns of `UsageRow` that are not texts.
_NUMBERS = {"input", "cached", "output", "reasoning", "status"}
_NUMBERS |= {"from_cache", "streamed", "fallbacks", "malformed"}
_REALS = {"at", "cost", "seconds", "first_byte", "saved"}


def _type_of(column: str) -> str:
    if column in _NUMBERS:
        return "bigint"
    return "float8" if column in _REALS else "text"


_COLUMNS = UsageRow._fields
_INSERT = (
    f"INSERT INTO gemini_bridge.request ({', '.join(_COLUMNS)})"
    f" SELECT * FROM unnest({', '.join(f'%s::{_type_of(column)}[]' for column in _COLUMNS)})"
    " ON CONFLICT (id) DO NOTHING"
)
_COUNT_REFUSALS = """
INSERT INTO gemini_bridge.refusal AS old (day, key, protocol, rule, model, requests)
    VALUES (%s, %s, %s, %s, %s, %s)
    ON CONFLICT (day, key, protocol, rule, model) DO UPDATE SET requests = old.requests + excluded.requests
"""
_IS_ALONE = "SELECT pg_try_advisory_xact_lock(hashtextextended('gemini_bridge.usage', 0))"
_DROP_OLDEST = """
DELETE FROM gemini_bridge.request WHERE id IN (
    SELECT id FROM gemini_bridge.request WHERE at < %s ORDER BY at LIMIT %s
)
"""
_DROP_OLDEST_DAY = (
    "DELETE FROM gemini_bridge.usage_day WHERE day = (SELECT min(day) FROM gemini_bridge.usage_day)"
)
#: The rows themselves: deleted ones leave space that new ones use.
_USED_BYTES = """
SELECT (SELECT coalesce(sum(pg_column_size(request.*)), 0) FROM gemini_bridge.request)
    + (SELECT coalesce(sum(pg_column_size(usage_day.*)), 0) FROM gemini_bridge.usage_day)
"""
_STORED_BYTES = """
SELECT CASE WHEN EXISTS (SELECT 1 FROM gemini_bridge.usage_day)
    THEN pg_total_relation_size('gemini_bridge.request') + pg_total_relation_size('gemini_bridge.usage_day')
    ELSE 0 END
"""


class PostgresUsageStore(PostgresStore, UsageStore):
    name = "usage"
    tables = ("usage_day", "refusal")

    def __init__(
        self,
        database: Database,
        *,
        days: int,
        request_days: int,
        megabytes: int,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(database)
        self._days = days
        self._request_days = request_days
        self._most_bytes = megabytes * 1024 * 1024
        self._now = now

    def write(self, rows: Sequence[UsageRow]) -> None:
        columns = map(_column, UsageRow._fields, zip(*rows, strict=True))
        if rows:
            self._database.run(_INSERT, list(columns), patience=PATIENT)

    def count_refusals(self, refusals: Mapping[Refusal, int]) -> None:
        def count(connection: Connection) -> None:
            known = "SELECT count(*) FROM gemini_bridge.refusal WHERE day = %s"
            for refusal, number in sorted(refusals.items()):  # in one order, as other bridges write too
                row = connection.execute(known, (refusal.day,)).fetchone()
                named = refusal if row is None or row[0] < MOST_REFUSALS else refusal._replace(model="")
                connection.execute(_COUNT_REFUSALS, (*named, number))

        self._database.transaction(count, patience=PATIENT)

    def tidy(self) -> bool:
        return self._database.transaction(self._tidied, patience=PATIENT)

    def stored_bytes(self) -> int:
        ((size,),) = self._database.run(_STORED_BYTES)
        return int(size)

    def sums(self, query: UsageQuery) -> list[UsageGroup]:
        return usage_report.sums(self._database, query)

    def refusals(self, query: UsageQuery) -> list[RefusalSum]:
        return usage_report.refusals(self._database, query)

    def experiment_requests(self, experiment: str, since: date, until: date) -> list[ExperimentRequest]:
        return usage_report.experiment_requests(self._database, experiment, since, until)

    def _tidied(self, connection: Connection) -> bool:
        if connection.execute(_IS_ALONE).fetchone() != (True,):
            return False
        oldest_day = datetime.fromtimestamp(self._now() - self._days * DAY, UTC).date()
        connection.execute("DELETE FROM gemini_bridge.usage_day WHERE day <= %s", (oldest_day,))
        connection.execute("DELETE FROM gemini_bridge.refusal WHERE day <= %s", (oldest_day,))
        deleted = _drop_oldest(connection, self._now() - self._request_days * DAY)
        if deleted < ROWS_IN_A_STEP and self._is_too_large(connection):
            deleted = _drop_oldest(connection, self._now()) or connection.execute(_DROP_OLDEST_DAY).rowcount
        return deleted >= ROWS_IN_A_STEP

    def _is_too_large(self, connection: Connection) -> bool:
        row = connection.execute(_USED_BYTES).fetchone()
        return row is not None and row[0] > self._most_bytes


def _column(name: str, values: Sequence[Any]) -> list[Any]:
    """psycopg takes no list with both kinds of numbers."""
    if name not in _REALS:
        return list(values)
    return [None if value is None else float(value) for value in values]


def _drop_oldest(connection: Connection, before: float) -> int:
    return connection.execute(_DROP_OLDEST, (before, ROWS_IN_A_STEP)).rowcount
