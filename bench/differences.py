"""What one way to run the bridge costs more than another, in the same run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.figures import Series, further_chunk, of
from bench.results import Results, Spread, Who, spread


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


def differences(results: Results, mine: str, other: str) -> Iterator[str]:
    """The gateway `mine` minus `other`, of all protocols and repetitions."""
    for each in _DIFFERENCES:
        if found := spread(_pairs(each, results, mine, other)):
            goal = "" if each.goal is None else f"; goal ≤ {each.goal:g}: {_met(found, each.goal)}"
            numbers = f"{found.median:+.2f} [{found.low:+.2f} to {found.high:+.2f}] {each.unit}"
            yield f"{mine} beside {other}, {each.title}: {numbers}{goal}."


def _met(found: Spread, goal: float) -> str:
    return "met" if found.median <= goal else "NOT met"


def _pairs(difference: _Difference, results: Results, mine: str, other: str) -> Iterator[float]:
    for protocol in results.protocols_of(mine):
        ours, theirs = (difference.series(results, Who(name, protocol)) for name in (mine, other))
        yield from (more - less for more, less in zip(ours, theirs, strict=False))
