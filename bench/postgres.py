"""`--postgres`: the bridge with limits, once with its state in PostgreSQL and once in SQLite files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module

from bench.gateways import BRIDGE, Gateway, bridge_command
from bench.processes import ROOT

SQLITE, POSTGRES = "sqlite", "postgres"

#: So high that no limit refuses a request, and every kind of limit is counted.
_LIMITS = {
    "BRIDGE_LIMITS__REQUESTS_PER_MINUTE": "1000000",
    "BRIDGE_LIMITS__TOKENS_PER_MINUTE": "1000000000",
    "BRIDGE_LIMITS__TOKENS_PER_DAY": "1000000000000",
    "BRIDGE_LIMITS__COST_PER_DAY": "1000000",
    "BRIDGE_LIMITS__STREAMS": "100000",
    "BRIDGE_LIMITS__UNPRICED": "allow",
}


@contextmanager
def bridges_with_limits() -> Iterator[list[Gateway]]:
    """One for each kind of state. The server is the one of the tests, and waits for the disk."""
    from bridge.state.postgres.migrations import upgrade

    sys.path.append(str(ROOT / "tests" / "support"))
    with import_module("postgres_server").postgres_server(fsync="on") as server:
        url: str = server.new_database()
        upgrade(url)
        yield [
            Gateway(SQLITE, BRIDGE.protocols, partial(bridge_command, more=_LIMITS)),
            Gateway(
                POSTGRES,
                BRIDGE.protocols,
                partial(bridge_command, more={**_LIMITS, "BRIDGE_STATE_URL": url}),
            ),
        ]
