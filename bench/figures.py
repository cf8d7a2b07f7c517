"""The figures of a run and their goals, each compared with the floor and the other gateways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.gateways import BRIDGE
from bench.results import DIRECT, FLOOR, Results, Spread, Who, ratio, spread
from bench.scenarios import START

FURTHER_CHUNKS = 198  #: S2 has this many more chunks than S0

Series = Callable[[Results, Who], list[float]]


@dataclass(frozen=True, slots=True)
class Figure:
    scenario: str
    title: str
    unit: str
    series: Series
    most_of_floor: float | None = None  #: goal: at most this many times the floor's
    most: float | None = None  #: goal: at most this value
    least_less: Mapping[str, float] = field(default_factory=dict)  #: goal: times less than another
    of_gateway: bool = False  #: of the process, the same in every protocol


def of(scenario: str, quantity: str) -> Series:
    return lambda results, who: results.series(who, scenario, quantity)


def further_chunk(results: Results, who: Who) -> list[float]:
    long, short = (results.series(who, scenario, "cpu_ms") for scenario in ("S2", "S0"))
    return [(more - less) * 1000 / FURTHER_CHUNKS for more, less in zip(long, short, strict=False)]


def _added_first(results: Results, who: Who) -> list[float]:
    through, direct = (results.series(each, "S0", "first_ms") for each in (who, DIRECT))
    return [slow - quick for slow, quick in zip(through, direct, strict=False)]


FIGURES = (
    Figure(
        "S1", "whole answer of 1 KB, 50 chunks upstream", "ms", of("S1", "cpu_ms"), 1.4, None, {"litellm": 7}
    ),
    Figure("S1few", "the same in 4 chunks upstream", "ms", of("S1few", "cpu_ms"), 1.4, None, {"litellm": 7}),
    Figure("S0", "stream of 2 chunks", "ms", of("S0", "cpu_ms")),
    Figure("S2", "burst of 200 chunks", "ms", of("S2", "cpu_ms"), 1.5, None, {"litellm": 35}),
    Figure("S2", "a further chunk in a burst", "µs", further_chunk, 1.7, None, {"litellm": 40}),
    Figure("S3", "200 paced streams, per chunk", "µs", of("S3", "cpu_chunk_us"), 1.2, None, {"litellm": 10}),
    Figure("S3", "lateness of a chunk, p50", "ms late", of("S3", "late_p50_ms"), 1.3),
    Figure("S3", "lateness of a chunk, p99", "ms late", of("S3", "late_p99_ms")),
    Figure("S3x50", "lateness p99 of 50 streams", "ms late", of("S3x50", "late_p99_ms")),
    Figure("S3x100", "lateness p99 of 100 streams", "ms late", of("S3x100", "late_p99_ms")),
    Figure("S3x400", "lateness p99 of 400 streams", "ms late", of("S3x400", "late_p99_ms")),
    Figure(
        "S4", "agent's request of 388 KB", "ms", of("S4", "cpu_ms"), 1.9, None, {"litellm": 10, "portkey": 1}
    ),
    Figure("S0", "added time to the first text", "ms passed", _added_first, None, 2.0, {"litellm": 8}),
    Figure(START, "idle memory, resident", "MB", of(START, "resident_mb"), None, 80, {"litellm": 4}, True),
    Figure(START, "idle memory, shared counted once", "MB", of(START, "proportional_mb"), of_gateway=True),
    Figure(START, "start to first answer", "s", of(START, "start_s"), None, 0.7, {"litellm": 10}, True),
)


# --- results -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Goal:
    text: str
    met: bool


@dataclass(frozen=True, slots=True)
class Other:
    """Another gateway with the same scenario; `times` is its figure divided by the bridge's."""

    found: Spread
    times: Spread
    goal: Goal | None


@dataclass(frozen=True, slots=True)
class Row:
    figure: Figure
    protocol: str
    floor: Spread
    bridge: Spread
    times_floor: Spread
    goal: Goal | None
    others: Mapping[str, Other]

    def as_json(self) -> dict[str, Any]:
        others = {
            name: {"found": _numbers(other.found), "times": _numbers(other.times), **_goal_json(other.goal)}
            for name, other in self.others.items()
        }
        return {
            "scenario": self.figure.scenario,
            "title": self.figure.title,
            "unit": self.figure.unit,
            "protocol": self.protocol,
            "floor": _numbers(self.floor),
            "bridge": _numbers(self.bridge),
            "times_floor": _numbers(self.times_floor),
            **_goal_json(self.goal),
            "others": others,
        }


def _numbers(found: Spread) -> dict[str, float]:
    return {name: round(value, 3) for name, value in found._asdict().items()}


def _goal_json(goal: Goal | None) -> dict[str, Any]:
    return {"goal": goal.text, "met": goal.met} if goal else {}


def rows(results: Results, others: list[str]) -> Iterator[Row]:
    for figure in FIGURES:
        protocols = results.protocols_of(BRIDGE.name)
        for protocol in protocols[:1] if figure.of_gateway else protocols:
            if row := _row(figure, protocol, results, others):
                yield row


def _row(figure: Figure, protocol: str, results: Results, others: list[str]) -> Row | None:
    series = figure.series(results, Who(BRIDGE.name, protocol))
    floors = figure.series(results, FLOOR)
    bridge, floor, times = spread(series), spread(floors), ratio(series, floors)
    if not bridge or not floor or not times:
        return None
    found = {
        name: other
        for name in others
        if (other := _other(figure, name, protocol, series, results)) is not None
    }
    shown = "all" if figure.of_gateway else protocol
    return Row(figure, shown, floor, bridge, times, _goal(figure, bridge, times), found)


def _goal(figure: Figure, found: Spread, times: Spread) -> Goal | None:
    if figure.most_of_floor is not None:
        return Goal(f"≤ {figure.most_of_floor} × floor", times.median <= figure.most_of_floor)
    if figure.most is not None:
        return Goal(f"≤ {figure.most:g} {figure.unit.split()[0]}", found.median <= figure.most)
    return None


def _other(figure: Figure, name: str, protocol: str, series: list[float], results: Results) -> Other | None:
    spoken = results.protocols_of(name)[0] if figure.of_gateway else protocol
    theirs = figure.series(results, Who(name, spoken))
    found, times = spread(theirs), ratio(theirs, series)
    if not found or not times:
        return None
    least = figure.least_less.get(name)
    goal = Goal(f"≥ {least:g} × less", times.median >= least) if least else None
    return Other(found, times, goal)
