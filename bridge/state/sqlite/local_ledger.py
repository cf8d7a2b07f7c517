"""The local ledger in an SQLite file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridge.state.local_ledger import KnownDay, LocalLedger
from bridge.state.sqlite.ledger import SqliteLedger

_REPLACE = "INSERT OR REPLACE INTO day (subject, day, tokens, cost) VALUES (?, ?, ?, ?)"
_RAISE = (
    "INSERT INTO day (subject, day, tokens, cost) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " tokens = max(tokens, excluded.tokens), cost = max(cost, excluded.cost)"
)


class SqliteLocalLedger(SqliteLedger, LocalLedger):
    def remember(self, days: Sequence[KnownDay], *, at_least: bool) -> None:
        query = _RAISE if at_least else _REPLACE
        self._database.transaction(lambda database: database.executemany(query, days))

    def count_running(self, subjects: Iterable[str], change: int) -> None:
        self._count(list(subjects), change)
