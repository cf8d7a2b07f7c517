"""The part that is the same for stores in PostgreSQL whose data is limited in age and bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from bridge.state.postgres.database import Database, PostgresStore, Values
from bridge.state.postgres.ledger import by_the_server
from bridge.state.store import PATIENT

#: The clock of the server, unless the caller has another.
NOW = "gemini_bridge.moment(%(now)s::float8)"


class BoundedStore(PostgresStore):
    #: A query for the `id`, the age (`since`) and the bytes (`size`) of everything in the store.
    sizes: ClassVar[str]
    #: The column of the main table that holds these ids.
    id_column: ClassVar[str] = "id"
    #: Tidying looks at all rows, so it runs once in this many writes.
    writes_between_tidying: ClassVar[int] = 50

    def __init__(
        self,
        database: Database,
        days: float,
        megabytes: int,
        now: Callable[[], float | None] = by_the_server,
    ) -> None:
        super().__init__(database)
        self._lifetime = days * 24 * 3600
        self._most_bytes = megabytes * 1024 * 1024
        self._now = now
        self._writes = 0

    def _values(self, **values: Any) -> dict[str, Any]:
        return {"now": self._now(), "lifetime": self._lifetime, **values}

    def _row(self, query: str, values: Values) -> tuple[Any, ...] | None:
        return next(iter(self._database.run(query, values)), None)

    def _tidy_sometimes(self) -> None:
        """To be called after each write."""
        self._writes += 1
        if self._writes % self.writes_between_tidying == 0:
            self._tidy()

    def _tidy(self) -> None:
        self._database.run(self._tidying(), self._values(most_bytes=self._most_bytes), patience=PATIENT)

    def _tidying(self) -> str:
        """Deletes what is too old, and the oldest beyond the limit. One bridge at a time does it."""
        table = f"gemini_bridge.{self.tables[0]}"
        return f"""
            DELETE FROM {table}
                WHERE pg_try_advisory_xact_lock(hashtextextended('{table}', 0)) AND {self.id_column} IN (
                    SELECT id FROM (
                        SELECT id, since, sum(size) OVER (ORDER BY since DESC, id) AS up_to
                        FROM ({self.sizes}) AS whole
                    ) AS sized WHERE up_to > %(most_bytes)s OR since <= {NOW} - %(lifetime)s
                )
        """
