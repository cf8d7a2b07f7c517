"""The tables that move between backends, and the SQL that all backends have in common for them.

A row is a tuple of texts, bytes, numbers, booleans and None, in the order of the columns below. Usage of the
last minute and running answers do not move: they would count for seconds only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge.state.usage_store import UsageRow

Row = tuple[Any, ...]

MOST_ROWS = 500  #: of a page
#: A page ends with the row that exceeds this size.
MOST_BYTES = 8 * 1024 * 1024

#: What happens to a column of a row that the target has already.
REPLACE = "{new}"
LARGER = "{greatest}({old}, {new})"
FIRST = "coalesce({old}, {new})"
EARLIER = "coalesce({least}({old}, {new}), {old}, {new})"


@dataclass(frozen=True, slots=True)
class PortableTable:
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]  #: identifies a row, and orders the pages
    changes: Mapping[str, str] = field(default_factory=dict)  #: of a row that the target has already
    newest: str = ""  #: the column with the moment: the newer row replaces the older one
    same: tuple[str, ...] = ()  #: columns that identify a row in place of the key, which differs by backend
    parent: tuple[str, str] | None = None  #: a column, and the table that must have its value as id
    size: str = "0"  #: the bytes of a row


def _sums(key: tuple[str, ...], *sums: str) -> dict[str, Any]:
    return {"columns": (*key, *sums), "key": key, "changes": dict.fromkeys(sums, LARGER)}


_AMOUNTS = ("input", "cached", "output", "reasoning", "cost", "from_cache", "saved")
_CONTENTS = "length(question) + length(answer)"
#: Backends number the rows of requests in different ways, so their contents identify them.
_REQUEST = tuple(name for name in UsageRow._fields if name != "id")
_MAY_BE_NULL = ("cost", "first_byte")

#: In this order: a row comes after the rows that it names. Rows of requests add to the sums of days. Then the
#: sums take the larger value, so usage that has no rows any more moves too.
PORTABLE_TABLES = (
    PortableTable(
        "keys", ("id", "name", "rules", "created", "revoked"), ("id",), {"rules": REPLACE, "revoked": FIRST}
    ),
    PortableTable(
        "secrets",
        ("digest", "key", "hint", "created", "expires"),
        ("digest",),
        {"expires": EARLIER},
        parent=("key", "key"),
    ),
    PortableTable(
        "requests", _REQUEST, ("id",), same=tuple(name for name in _REQUEST if name not in _MAY_BE_NULL)
    ),
    PortableTable(
        "days",
        **_sums(
            ("day", "key", "protocol", "model"), "requests", "failed", "client_left", "unpriced", *_AMOUNTS
        ),
    ),
    PortableTable("refusals", **_sums(("day", "key", "protocol", "rule", "model"), "requests")),
    PortableTable(
        "answers",
        (
            *("id", "owner", "previous", "conversation", "kept", "touched", "cancelled"),
            *("question", "answer"),
        ),
        ("id",),
        newest="touched",
        size=_CONTENTS,
    ),
    PortableTable("answer items", ("id", "answer"), ("id",), parent=("answer", "answer")),
    PortableTable(
        "events",
        ("owner", "answer", "first", "length", "last", "kept", "data"),
        ("owner", "answer", "first"),
        newest="kept",
        size="length(data)",
    ),
    PortableTable(
        "agent runs", ("run", "number", "kept", "line"), ("run", "number"), newest="kept", size="length(line)"
    ),
    PortableTable("conversations", ("id", "owner", "created", "used", "metadata"), ("id",), newest="used"),
    PortableTable(
        "conversation items",
        ("conversation", "id", "item"),
        ("position",),
        parent=("conversation", "conversation"),
        size="length(item)",
    ),
    PortableTable(
        "signatures",
        ("owner", "family", "call", "signature", "kept"),
        ("owner", "family", "call"),
        newest="kept",
    ),
    PortableTable("cool-downs", **_sums(("name",), "until")),
    PortableTable("learnt facts", **_sums(("name",), "until")),
    PortableTable("seal", ("one", "secret"), ("one",)),
    PortableTable("day budgets", **_sums(("subject", "day"), "tokens", "cost")),
)


class StoredTable(ABC):
    """One of these tables in one backend. All methods raise StorageError."""

    def __init__(self, shape: PortableTable) -> None:
        self.shape = shape

    @abstractmethod
    def count(self) -> int: ...

    @abstractmethod
    def pages(self) -> Iterator[Sequence[Row]]:
        """All rows, in pages of limited size. Rows that are written meanwhile may be missing."""

    @abstractmethod
    def add(self, rows: Sequence[Row]) -> None:
        """Write rows of another backend, in one transaction. No row is added twice."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between the backends: names of tables and columns, parameters and two functions."""

    table: str  #: the backend's name of the table
    mark: str  #: of a parameter, with its name in place of {}
    greatest: str
    least: str
    prefix: str = ""  #: of all tables
    names: Mapping[str, str] = field(
        default_factory=dict
    )  #: of key columns with another name in this backend
    reads: Mapping[str, str] = field(default_factory=dict)  #: expressions that read a column
    added: Mapping[str, str] = field(default_factory=dict)  #: columns of this backend only, with their values
    elsewhere: tuple[str, ...] = ()  #: columns that are in another table
    where: str = "TRUE"  #: the rows that move

    @property
    def _from(self) -> str:
        return f"{self.prefix}{self.table}"

    def name(self, column: str) -> str:
        return self.names.get(column, column)

    # --- reading -------------------------------------------------------------------------------------

    def count_query(self) -> str:
        return f"SELECT count(*) FROM {self._from} WHERE {self.where}"

    def page_query(self, shape: PortableTable, *, first: bool) -> str:
        """Reads the sizes of rows before their contents. `first`: false for the page after a position."""
        keys = ", ".join(f"found.{self.name(name)}" for name in shape.key)
        marks = ", ".join(self.mark.format(name) for name in shape.key)
        where = self.where if first else f"{self.where} AND ({keys}) > ({marks})"
        before = f"sum({shape.size}) OVER (ORDER BY {keys}) - ({shape.size}) AS bytes_before"
        rows = f"FROM {self._from} AS found WHERE"
        page = f"SELECT {keys}, {before} {rows} {where} ORDER BY {keys} LIMIT {MOST_ROWS}"
        chosen = f"SELECT {', '.join(map(self.name, shape.key))} FROM ({page}) AS page"
        small = f"({keys}) IN ({chosen} WHERE bytes_before < {MOST_BYTES})"
        columns = ", ".join(self.reads.get(name, f"found.{self.name(name)}") for name in shape.columns)
        return f"SELECT {keys}, {columns} {rows} {small} ORDER BY {keys}"

    # --- writing -------------------------------------------------------------------------------------

    def insert(self, shape: PortableTable) -> str:
        here = [name for name in shape.columns if name not in self.elsewhere]
        values = {**self.added, **{self.name(name): self.mark.format(name) for name in here}}
        select = f"SELECT {', '.join(values.values())} WHERE {self._wanted(shape)}"
        columns = ", ".join(values)
        return f"INSERT INTO {self._from} AS old ({columns}) {select} ON CONFLICT {self._conflict(shape)}"

    def _wanted(self, shape: PortableTable) -> str:
        if shape.parent is not None:
            column, parent = shape.parent
            mark = self.mark.format(column)
            return f"EXISTS (SELECT 1 FROM {self.prefix}{parent} AS parent WHERE parent.id = {mark})"
        if not shape.same:
            return "TRUE"
        same = " AND ".join(f"known.{name} = {self.mark.format(name)}" for name in shape.same)
        return f"NOT EXISTS (SELECT 1 FROM {self._from} AS known WHERE {same})"

    def _conflict(self, shape: PortableTable) -> str:
        others = [name for name in shape.columns if name not in (*shape.key, *self.elsewhere)]
        changes = dict.fromkeys(others, REPLACE) if shape.newest else shape.changes
        if not changes:
            return "DO NOTHING"
        keys = ", ".join((*self.added, *map(self.name, shape.key)))
        changed = ", ".join(f"{name} = {self._changed(name, rule)}" for name, rule in changes.items())
        newer = f" WHERE excluded.{shape.newest} > old.{shape.newest}" if shape.newest else ""
        return f"({keys}) DO UPDATE SET {changed}{newer}"

    def _changed(self, name: str, rule: str) -> str:
        words = {"old": f"old.{name}", "new": f"excluded.{name}"}
        return rule.format(**words, greatest=self.greatest, least=self.least)
