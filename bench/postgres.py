"""`--postgres`: the bridge with limits, once with its state in PostgreSQL and once in SQLite files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from bench.figures import Series, further_chunk, of
from bench.gateways import BRIDGE, Gateway, bridge_command
from bench.processes import ROOT
from bench.results import Results, Spread, Who, spread

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


# --- differences -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Difference:
    title: str
    unit: str
    series: Series
    goal: float | None = None


_DIFFERENCES = (
    _Difference("CPU time of a whole answer (S1few)", "ms", of("S1few", "cpu_ms"), 1.0),
    _Difference("CPU time of a stream of 2 chunks (S0)", "ms", of("S0", "cpu_ms"), 1.0),
    _Difference("time to the first text (S0)", "ms", of("S0", "first_ms"), 1.0),
    _Difference("CPU time of a further chunk (S2)", "µs", further_chunk),
)


def differences(results: Results) -> Iterator[str]:
    """PostgreSQL minus SQLite, of all protocols and repetitions."""
    for each in _DIFFERENCES:
        if found := spread(_pairs(each, results)):
            goal = "" if each.goal is None else f"; goal ≤ {each.goal:g}: {_met(found, each.goal)}"
            numbers = f"{found.median:+.2f} [{found.low:+.2f} to {found.high:+.2f}] {each.unit}"
            yield f"postgres beside sqlite, {each.title}: {numbers}{goal}."


def _met(found: Spread, goal: float) -> str:
    return "met" if found.median <= goal else "NOT met"


def _pairs(difference: _Difference, results: Results) -> Iterator[float]:
    for protocol in results.protocols_of(POSTGRES):
        ours, theirs = (difference.series(results, Who(name, protocol)) for name in (POSTGRES, SQLITE))
        yield from (mine - other for mine, other in zip(ours, theirs, strict=False))
