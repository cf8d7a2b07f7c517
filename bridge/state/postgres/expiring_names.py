"""Names that count until a point in time by the server's clock, in one table: cool-downs, facts, failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from bridge.state.expiring_names import ExpiringCooldowns, ExpiringFacts, ExpiringFailures, ExpiringNames
from bridge.state.postgres.database import Database, PostgresStore
from bridge.state.postgres.ledger import by_the_server

_DELETE = """
DELETE FROM gemini_bridge.expiring WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM gemini_bridge.expiring
    WHERE kind = %s AND until <= gemini_bridge.moment(%s::float8) FOR UPDATE SKIP LOCKED
))
"""
_PROLONG = """
INSERT INTO gemini_bridge.expiring AS old (kind, name, until)
    VALUES (%s, %s, gemini_bridge.moment(%s::float8) + %s)
    ON CONFLICT (kind, name) DO UPDATE SET until = greatest(old.until, excluded.until)
    RETURNING xmax = 0
"""
_READ = """
SELECT name, until - now
    FROM gemini_bridge.expiring, (SELECT gemini_bridge.moment(%s::float8) AS now) AS clock
    WHERE kind = %s AND until > now
"""


class _PostgresNames(PostgresStore, ExpiringNames):
    tables = ("expiring",)

    def __init__(self, database: Database, now: Callable[[], float] | None = None) -> None:
        """`now`: for tests, in place of the clocks of this machine and of the server."""
        PostgresStore.__init__(self, database)
        ExpiringNames.__init__(self, self.name, now or time.time)
        self._server_now: Callable[[], float | None] = now or by_the_server

    def _write(self, name: str, seconds: float) -> bool:
        now = self._server_now()
        self._database.run(_DELETE, (self.name, now))
        ((new,),) = self._database.run(_PROLONG, (self.name, name, now, seconds))
        return bool(new)

    def _read(self) -> Mapping[str, float]:
        return dict(self._database.run(_READ, (self._server_now(), self.name)))


class PostgresCooldownStore(_PostgresNames, ExpiringCooldowns):
    name = "cooldowns"


class PostgresLearntFactStore(_PostgresNames, ExpiringFacts):
    name = "learnt_facts"


class PostgresUpstreamFailureStore(_PostgresNames, ExpiringFailures):
    name = "upstream_failures"
