"""Sums over the accounts. They can be read while the service writes: neither waits for the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from bridge.state.database import has_column

PATIENCE = 5.0

#: What the sums of each day can be divided by, and what only the rows of single requests can.
OF_DAYS: Mapping[str, str] = {"day": "day", "key": "key", "model": "model", "protocol": "protocol"}
OF_REQUESTS: Mapping[str, str] = {
    **OF_DAYS,
    "day": "date(at, 'unixepoch')",
    "client": "client",
    "client-model": "client_model",
    "error": "error",
    "tier": "tier",
}

_TOKENS = "sum(input), sum(cached), sum(output), sum(reasoning)"
_FROM_DAYS = f"sum(requests), sum(failed), sum(client_left), sum(unpriced), {_TOKENS}, sum(cost)"
_FROM_REQUESTS = (
    "count(*), sum(outcome = 'failed'), sum(outcome = 'client_left'), sum(cost IS NULL), "
    f"{_TOKENS}, total(cost)"
)
_LARGEST_FIRST = "total(cost) DESC, sum(input + cached + output + reasoning) DESC"


class Sums(NamedTuple):
    requests: int = 0
    failed: int = 0
    client_left: int = 0
    unpriced: int = 0  #: requests to models without a known price
    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    cost: float = 0.0

    @property
    def cached_share(self) -> float | None:
        """Of the prompts, from 0 to 1; None where there were none."""
        prompt = self.input + self.cached
        return self.cached / prompt if prompt else None


class Group(NamedTuple):
    names: tuple[str, ...]
    sums: Sums


@dataclass(frozen=True, slots=True)
class Question:
    by: tuple[str, ...]
    since: date  #: both days are included
    until: date
    key: str | None = None

    @property
    def of_single_requests(self) -> bool:
        return not set(self.by) <= OF_DAYS.keys()


def read_sums(path: Path, question: Question) -> list[Group]:
    """Raises `FileNotFoundError` while there are no accounts, and `sqlite3.Error` if they cannot be read."""
    if not path.exists():
        raise FileNotFoundError(path)
    width = len(question.by)
    with closing(_opened(path)) as database:
        if not _has_tables(database):
            return []
        known = _columns(database)
        query, values = (
            _from_requests(question, known) if question.of_single_requests else _from_days(question)
        )
        rows = database.execute(query, values).fetchall()
    return [Group(tuple(row[:width]), Sums(*row[width:])) for row in rows]


class RefusalSum(NamedTuple):
    key: str
    rule: str
    model: str
    requests: int


def read_refusals(path: Path, question: Question) -> list[RefusalSum]:
    """The most frequent first. Raises like `read_sums`."""
    if not path.exists():
        raise FileNotFoundError(path)
    values = [question.since.isoformat(), question.until.isoformat()]
    between = "day BETWEEN ? AND ?"
    if question.key is not None:
        between, values = f"{between} AND key = ?", [*values, question.key]
    query = (
        f"SELECT key, rule, model, sum(requests) FROM refusal WHERE {between}"
        " GROUP BY key, rule, model ORDER BY 4 DESC, 1, 2, 3"
    )
    with closing(_opened(path)) as database:
        found = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'refusal'").fetchone()[0]
        return [RefusalSum(*row) for row in database.execute(query, values)] if found else []


def total(groups: Sequence[Group]) -> Sums:
    return Sums(*map(sum, zip(*(group.sums for group in groups), strict=True))) if groups else Sums()


def _from_days(question: Question) -> tuple[str, list[Any]]:
    between = "day BETWEEN ? AND ?"
    days = [question.since.isoformat(), question.until.isoformat()]
    return _query("day", question, OF_DAYS, _FROM_DAYS, between, days)


def _from_requests(question: Question, known: Mapping[str, str]) -> tuple[str, list[Any]]:
    moments = [_midnight(question.since), _midnight(question.until + timedelta(days=1))]
    return _query("request", question, known, _FROM_REQUESTS, "at >= ? AND at < ?", moments)


def _query(
    table: str, question: Question, known: Mapping[str, str], sums: str, between: str, values: list[Any]
) -> tuple[str, list[Any]]:
    groups = ", ".join(known[name] for name in question.by)
    if question.key is not None:
        between, values = f"{between} AND key = ?", [*values, question.key]
    order = groups if "day" in question.by else _LARGEST_FIRST
    return (
        f"SELECT {groups}, {sums} FROM {table} WHERE {between} GROUP BY {groups} ORDER BY {order}",
        values,
    )


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _has_tables(database: sqlite3.Connection) -> bool:
    """There are none in the moment between the making of the file and the first row."""
    found = database.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('day', 'request')")
    return bool(found.fetchone()[0] == 2)


def _columns(database: sqlite3.Connection) -> Mapping[str, str]:
    """A file that an older version made has no tiers until this one has written to it."""
    return OF_REQUESTS if has_column(database, "request", "tier") else {**OF_REQUESTS, "tier": "''"}


def _opened(path: Path) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode=ro"
    database = sqlite3.connect(address, uri=True, timeout=PATIENCE)
    try:
        _has_tables(database)
    except sqlite3.OperationalError:
        database.close()
        if path.with_name(f"{path.name}-wal").exists():
            raise
        # Nobody writes, and we may not: the file can be read as it lies there.
        return sqlite3.connect(f"{address}&immutable=1", uri=True, timeout=PATIENCE)
    return database
