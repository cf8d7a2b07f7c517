"""The figures as a table in Markdown, with notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.figures import Goal, Row
from bench.results import DIRECT, Results, Spread

NOISY = 0.2  #: cores; if other processes use more, wall-clock times are unreliable


def table(rows: Sequence[Row], others: Sequence[str]) -> str:
    head = ["", "work", "protocol", "unit", "floor", "bridge", "× floor", "goal"]
    for name in others:
        head += [name, "× bridge", "goal"]
    lines = [head, ["---"] * len(head), *(_cells(row, others) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Row, others: Sequence[str]) -> list[str]:
    figure = row.figure
    cells = [figure.scenario, figure.title, row.protocol, figure.unit, _number(row.floor.median)]
    cells += [_spread(row.bridge), _spread(row.times_floor), _goal(row.goal)]
    for name in others:
        other = row.others.get(name)
        cells += (
            [_number(other.found.median), _spread(other.times), _goal(other.goal)] if other else ["–", "", ""]
        )
    return cells


def _number(value: float) -> str:
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _spread(found: Spread) -> str:
    """The median with the minimum and maximum of all repetitions."""
    return f"{_number(found.median)} [{_number(found.low)}–{_number(found.high)}]"


def _goal(goal: Goal | None) -> str:
    return f"{goal.text}: {'met' if goal.met else 'NOT met'}" if goal else ""


def notes(rows: Sequence[Row], results: Results) -> Iterator[str]:
    found = [each for row in rows for each in (row.goal, *(other.goal for other in row.others.values()))]
    goals = [goal for goal in found if goal]
    yield f"{sum(goal.met for goal in goals)} of {len(goals)} goals met."
    yield "ms and µs are CPU time of the whole process tree, median [min–max]; below 1.4 × is noise."
    for gateway, (right, asked) in _counted(results).items():
        yield f"{gateway}: {right} of {asked} answers right."
    for who, scenario, sample in results.wrong():
        wrong = sample.asked - sample.right
        yield f"{who.gateway} {who.protocol} {scenario}: {wrong} wrong: {sample.failures[0]}"
    yield from _kept_back(results)
    if (cores := results.foreign_cores()) > NOISY:
        yield f"Other processes used {cores:.1f} cores: wall-clock times (late, passed, s) are unreliable."


def _counted(results: Results) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for who, scenarios in results.samples.items():
        right, asked = counts.get(who.gateway, (0, 0))
        samples = [sample for each in scenarios.values() for sample in each]
        right += sum(sample.right for sample in samples)
        counts[who.gateway] = right, asked + sum(sample.asked for sample in samples)
    return counts


def _kept_back(results: Results) -> Iterator[str]:
    """The parts of the long request that a gateway did not pass on: it had less work."""
    whole = results.passed_on.get(DIRECT, {})
    for who, passed in results.passed_on.items():
        less = {kind: count for kind, count in passed.items() if kind != "turns" and count < whole[kind]}
        if less:
            yield f"{who.gateway} {who.protocol}: only {less} of {whole} reached the upstream in S4."
