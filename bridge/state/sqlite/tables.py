"""The tables of the SQLite files, for copies from and to another backend."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bridge.state.portable_tables import PORTABLE_TABLES, Dialect, PortableTable, Row, StoredTable
from bridge.state.sqlite import (
    agent_run_store,
    answer_store,
    conversation_store,
    event_store,
    expiring_names,
    key_store,
    ledger,
    signature_store,
    summary_store,
    usage_store,
)
from bridge.state.sqlite.database import ROLLBACK, WAL, Database
from bridge.state.sqlite.migrations import Schema

#: SQLite keeps these as numbers.
_BOOLEANS = frozenset({"cancelled", "last"})


class _Place(NamedTuple):
    file: str
    schema: Schema
    table: str
    special: Mapping[str, Any] = {}  #: fields of the dialect
    also: str = ""  #: written with each row
    mode: tuple[str, str] = WAL


_KEYS = ("keys.sqlite3", key_store.SCHEMA)
_USAGE = ("accounts.sqlite3", usage_store.SCHEMA)
_ANSWERS = ("answers.sqlite3", answer_store.SCHEMA)
_CONVERSATIONS = ("conversations.sqlite3", conversation_store.SCHEMA)
_CHANGED = (
    "INSERT INTO change (one, number) VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET number = number + 1"
)
_CONVERSATION = "coalesce((SELECT each.id FROM conversation AS each WHERE each.answer = found.id), '')"
_PLACES = {
    "keys": _Place(*_KEYS, "key", also=_CHANGED, mode=ROLLBACK),
    "secrets": _Place(*_KEYS, "secret", also=_CHANGED, mode=ROLLBACK),
    "requests": _Place(*_USAGE, "request"),
    "days": _Place(*_USAGE, "day"),
    "refusals": _Place(*_USAGE, "refusal"),
    "answers": _Place(
        *_ANSWERS,
        "answer",
        {"reads": {"conversation": _CONVERSATION}, "elsewhere": ("conversation",)},
        "INSERT OR REPLACE INTO conversation (answer, id) VALUES (:id, :conversation)",
    ),
    "answer items": _Place(*_ANSWERS, "item"),
    "events": _Place("events.sqlite3", event_store.SCHEMA, "event_batch"),
    "agent runs": _Place("agent_runs.sqlite3", agent_run_store.SCHEMA, "run_line"),
    "conversations": _Place(*_CONVERSATIONS, "conversation"),
    "conversation items": _Place(*_CONVERSATIONS, "conversation_item"),
    "signatures": _Place(
        "signatures.sqlite3", signature_store.SCHEMA, "owned_signature", {"names": {"call": "call_id"}}
    ),
    "cool-downs": _Place("cooldowns.sqlite3", expiring_names.SCHEMA, "expiring"),
    "learnt facts": _Place("learnt.sqlite3", expiring_names.SCHEMA, "expiring"),
    "seal": _Place("summaries.sqlite3", summary_store.SCHEMA, "seal"),
    "day budgets": _Place("limits.sqlite3", ledger.SCHEMA, "day"),
}


def sqlite_tables(folder: Path) -> list[StoredTable]:
    return [SqliteTable(shape, folder, _PLACES[shape.name]) for shape in PORTABLE_TABLES]


class SqliteTable(StoredTable):
    def __init__(self, shape: PortableTable, folder: Path, place: _Place) -> None:
        super().__init__(shape)
        self._path = folder / place.file
        # A cached statement keeps its last values, which may be megabytes.
        self._database = Database(self._path, place.schema, place.mode, cached_statements=0)
        self._dialect = Dialect(place.table, ":{}", "max", "min", **place.special)
        self._also = place.also

    def count(self) -> int:
        if not self._path.exists():
            return 0
        query = self._dialect.count_query()
        return self._database.read(lambda database: int(database.execute(query).fetchone()[0]))

    def pages(self) -> Iterator[Sequence[Row]]:
        position: Row | None = None
        while self._path.exists() and (found := self._page(position)):
            width = len(self.shape.key)
            position = found[-1][:width]
            yield [self._typed(row[width:]) for row in found]

    def _page(self, position: Row | None) -> list[Row]:
        query = self._dialect.page_query(self.shape, first=position is None)
        values = dict(zip(self.shape.key, position or (), strict=False))
        return self._database.read(lambda database: database.execute(query, values).fetchall())

    def _typed(self, row: Row) -> Row:
        named = zip(self.shape.columns, row, strict=True)
        return tuple(bool(value) if name in _BOOLEANS else value for name, value in named)

    def add(self, rows: Sequence[Row]) -> None:
        named = [dict(zip(self.shape.columns, row, strict=True)) for row in rows]
        insert = self._dialect.insert(self.shape)

        def write(database: sqlite3.Connection) -> None:
            database.executemany(insert, named)
            if self._also:
                database.executemany(self._also, named)

        self._database.transaction(write)
