"""The records of agents' runs in an SQLite file."""

from __future__ import annotations

import sqlite3

from bridge.state.agent_run_store import AgentRunStore, RunLines
from bridge.state.sqlite.bounded_store import BoundedStore
from bridge.state.sqlite.migrations import Schema, statements

SCHEMA = Schema(
    "run_line",
    (
        statements(
            """
            CREATE TABLE run_line (
                run TEXT NOT NULL, number INTEGER NOT NULL, kept REAL NOT NULL, line BLOB NOT NULL,
                PRIMARY KEY (run, number)
            )
            """,
        ),
    ),
)

_ADD = "INSERT OR REPLACE INTO run_line (run, number, kept, line) VALUES (?, ?, ?, ?)"
_LINES = "SELECT line FROM run_line WHERE run = ? ORDER BY number"
_NEWEST = """
SELECT head.run, head.line, tail.line, tail.number + 1
    FROM run_line AS head JOIN run_line AS tail ON tail.run = head.run
    AND tail.number = (SELECT MAX(number) FROM run_line AS each WHERE each.run = head.run)
    WHERE head.number = 0 ORDER BY head.kept DESC, head.run LIMIT ?
"""


class SqliteAgentRunStore(BoundedStore, AgentRunStore):
    schema = SCHEMA
    table = "run_line"
    id_column = "run"
    sizes = "SELECT run AS id, MAX(kept) AS since, SUM(LENGTH(line)) AS size FROM run_line GROUP BY run"

    def add(self, run_id: str, number: int, line: bytes) -> None:
        row = (run_id, number, self._now(), line)

        def insert(database: sqlite3.Connection) -> None:
            database.execute(_ADD, row)
            self._tidy_sometimes(database)

        self._database.transaction(insert)

    def lines(self, run_id: str) -> list[bytes]:
        rows = self._database.read(lambda database: database.execute(_LINES, (run_id,)).fetchall())
        return [line for (line,) in rows]

    def newest(self, most: int) -> list[RunLines]:
        rows = self._database.read(lambda database: database.execute(_NEWEST, (most,)).fetchall())
        return [RunLines(*row) for row in rows]
