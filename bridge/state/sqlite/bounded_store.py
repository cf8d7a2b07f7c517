"""The part that is the same for SQLite files whose data is limited in age and bytes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from bridge.state.sqlite.database import Database, SqliteStore
from bridge.state.sqlite.migrations import Schema


class BoundedStore(SqliteStore):
    schema: ClassVar[Schema]
    table: ClassVar[str]
    #: A query for the `id`, the age (`since`) and the bytes (`size`) of everything in the store.
    sizes: ClassVar[str]
    #: The column of the table that holds these ids.
    id_column: ClassVar[str] = "id"
    #: Tidying looks at all rows, so it runs once in this many writes.
    writes_between_tidying: ClassVar[int] = 50

    def __init__(self, path: Path, days: float, megabytes: int, now: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        # A cached statement keeps its last values, which may be megabytes.
        self._database = Database(path, self.schema, cached_statements=0)
        self._lifetime = days * 24 * 3600
        self._most_bytes = megabytes * 1024 * 1024
        self._now = now
        self._writes = 0

    def _oldest(self) -> float:
        """When the oldest data was written that is still valid."""
        return self._now() - self._lifetime

    def _row(self, query: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._database.read(
            lambda database: database.execute(query, values).fetchone()
        )
        return row

    def _changed(self, query: str, values: tuple[Any, ...]) -> bool:
        return self._database.transaction(lambda database: database.execute(query, values).rowcount > 0)

    def _tidy_sometimes(self, database: sqlite3.Connection) -> None:
        """To be called in each transaction that writes: deletes what is too old, and the oldest beyond the
        limit."""
        self._writes += 1
        if self._writes % self.writes_between_tidying == 0:
            self._tidy(database)

    def _tidy(self, database: sqlite3.Connection) -> None:
        up_to = f"SELECT id, since, SUM(size) OVER (ORDER BY since DESC, id) AS up_to FROM ({self.sizes})"
        gone = f"SELECT id FROM ({up_to}) WHERE up_to > ? OR since <= ?"
        query = f"DELETE FROM {self.table} WHERE {self.id_column} IN ({gone})"
        database.execute(query, (self._most_bytes, self._oldest()))
