"""The tables in PostgreSQL, for copies from and to another backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bridge.state.portable_tables import PORTABLE_TABLES, Dialect, PortableTable, Row, StoredTable
from bridge.state.postgres.connection import Connection
from bridge.state.postgres.database import Database
from bridge.state.store import PATIENT


class _Place(NamedTuple):
    table: str
    special: Mapping[str, Any] = {}  #: fields of the dialect
    also: str = ""  #: written with each row
    bytes_of_text: tuple[str, ...] = ()  #: texts that may contain any character


_CHANGED = "UPDATE gemini_bridge.change SET number = number + 1"
_IN_USE = "key IN (SELECT each.id FROM gemini_bridge.key AS each WHERE each.replaced IS NULL)"
_DAY = {"reads": {"day": "day::text"}}
_PLACES = {
    "keys": _Place("key", {"where": "replaced IS NULL"}, _CHANGED),
    "secrets": _Place("secret", {"where": _IN_USE}, _CHANGED),
    "requests": _Place("request", {"added": {"id": "gen_random_uuid()::text"}}),
    "days": _Place("usage_day", _DAY),
    "refusals": _Place("refusal", _DAY),
    "answers": _Place("answer"),
    "answer items": _Place("item"),
    "events": _Place("event_batch"),
    "agent runs": _Place("run_line"),
    "conversations": _Place("conversation"),
    "conversation items": _Place("conversation_item", bytes_of_text=("id",)),
    "signatures": _Place("signature", bytes_of_text=("owner", "family", "call", "signature")),
    "cool-downs": _Place("expiring", {"where": "kind = 'cooldowns'", "added": {"kind": "'cooldowns'"}}),
    "learnt facts": _Place(
        "expiring", {"where": "kind = 'learnt_facts'", "added": {"kind": "'learnt_facts'"}}
    ),
    "seal": _Place("seal"),
    "day budgets": _Place("day"),
}


def postgres_tables(url: str) -> list[StoredTable]:
    database = Database(url, PATIENT)
    return [PostgresTable(shape, database, _PLACES[shape.name]) for shape in PORTABLE_TABLES]


class PostgresTable(StoredTable):
    def __init__(self, shape: PortableTable, database: Database, place: _Place) -> None:
        super().__init__(shape)
        self._database = database
        self._dialect = Dialect(place.table, "%({})s", "greatest", "least", "gemini_bridge.", **place.special)
        self._place = place

    def count(self) -> int:
        ((found,),) = self._database.run(self._dialect.count_query())
        return int(found)

    def pages(self) -> Iterator[Sequence[Row]]:
        position: Row | None = None
        while found := self._page(position):
            width = len(self.shape.key)
            position = found[-1][:width]
            yield [self._read(row[width:]) for row in found]

    def _page(self, position: Row | None) -> list[Row]:
        query = self._dialect.page_query(self.shape, first=position is None)
        return self._database.run(query, dict(zip(self.shape.key, position or (), strict=False)))

    def _read(self, row: Row) -> Row:
        """Half of a surrogate pair becomes a replacement character: SQLite cannot store it."""
        texts, named = self._place.bytes_of_text, zip(self.shape.columns, row, strict=True)
        return tuple(value.decode("utf-8", "replace") if name in texts else value for name, value in named)

    def add(self, rows: Sequence[Row]) -> None:
        named = [self._values(row) for row in rows]
        insert = self._dialect.insert(self.shape)

        def write(connection: Connection) -> None:
            with connection.cursor() as cursor:
                cursor.executemany(insert, named)
                if self._place.also:
                    cursor.executemany(self._place.also, named)

        self._database.transaction(write)

    def _values(self, row: Row) -> dict[str, Any]:
        values = dict(zip(self.shape.columns, row, strict=True))
        return values | {name: values[name].encode() for name in self._place.bytes_of_text}
