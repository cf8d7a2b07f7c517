"""The records of agents' runs in PostgreSQL."""

from __future__ import annotations

from bridge.state.agent_run_store import AgentRunStore, RunLines
from bridge.state.postgres.bounded_store import NOW, BoundedStore

_ADD = f"""
INSERT INTO gemini_bridge.run_line (run, number, kept, line)
    VALUES (%(run)s, %(number)s, {NOW}, %(line)s)
    ON CONFLICT (run, number) DO UPDATE SET kept = excluded.kept, line = excluded.line
"""
_LINES = "SELECT line FROM gemini_bridge.run_line WHERE run = %s ORDER BY number"
_NEWEST = """
SELECT head.run, head.line, tail.line, tail.number + 1
    FROM gemini_bridge.run_line AS head JOIN gemini_bridge.run_line AS tail ON tail.run = head.run
    AND tail.number = (SELECT max(number) FROM gemini_bridge.run_line AS each WHERE each.run = head.run)
    WHERE head.number = 0 ORDER BY head.kept DESC, head.run LIMIT %s
"""


class PostgresAgentRunStore(BoundedStore, AgentRunStore):
    name = "agent runs"
    tables = ("run_line",)
    id_column = "run"
    sizes = """
        SELECT run AS id, max(kept) AS since, sum(octet_length(line)) AS size
        FROM gemini_bridge.run_line GROUP BY run
    """

    def add(self, run_id: str, number: int, line: bytes) -> None:
        self._database.run(_ADD, self._values(run=run_id, number=number, line=line))
        self._tidy_sometimes()

    def lines(self, run_id: str) -> list[bytes]:
        return [line for (line,) in self._database.run(_LINES, (run_id,))]

    def newest(self, most: int) -> list[RunLines]:
        return [RunLines(*row) for row in self._database.run(_NEWEST, (most,))]
