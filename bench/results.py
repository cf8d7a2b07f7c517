"""The samples of a run by gateway and protocol, with medians and spreads."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from bench.check import Checked
from bench.scenarios import Scenario


class Who(NamedTuple):
    gateway: str
    protocol: str


DIRECT = Who("direct", "gemini")  #: the clients send requests to the fake Gemini itself
FLOOR = Who("floor", "gemini")


@dataclass(slots=True)
class Sample:
    """One repetition of one scenario. A value that was not measured is None."""

    asked: int = 0
    right: int = 0
    failures: list[str] = field(default_factory=list)
    cpu_ms: float | None = None  #: of the whole process tree, per right answer
    cpu_chunk_us: float | None = None
    first_ms: float | None = None
    late_p50_ms: float | None = None
    late_p99_ms: float | None = None
    start_s: float | None = None
    resident_mb: float | None = None
    proportional_mb: float | None = None
    foreign_cores: float | None = None  #: used by other processes of the machine at the same time


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]


def sample_of(answers: Sequence[Checked], scenario: Scenario, cpu_seconds: float | None) -> Sample:
    right = [answer for answer in answers if answer.failure is None]
    failures = [answer.failure for answer in answers if answer.failure is not None]
    sample = Sample(len(answers), len(right), failures[:3])
    if not right:
        return sample
    sample.first_ms = statistics.median(answer.first for answer in right) * 1000
    if cpu_seconds is not None:
        sample.cpu_ms = cpu_seconds * 1000 / len(right)
        sample.cpu_chunk_us = sample.cpu_ms * 1000 / scenario.script.chunks
    if lateness := [late * 1000 for answer in right for late in answer.lateness]:
        sample.late_p50_ms = percentile(lateness, 0.5)
        sample.late_p99_ms = percentile(lateness, 0.99)
    return sample


class Spread(NamedTuple):
    median: float
    low: float
    high: float


def spread(values: Iterable[float]) -> Spread | None:
    found = sorted(values)
    return Spread(statistics.median(found), found[0], found[-1]) if found else None


def ratio(values: Sequence[float], others: Sequence[float]) -> Spread | None:
    """The values divided by the others, for each repetition: a slow machine slows both alike."""
    return spread(value / other for value, other in zip(values, others, strict=False) if other)


class Results:
    def __init__(self) -> None:
        self.samples: dict[Who, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
        self.passed_on: dict[Who, dict[str, int]] = {}  #: parts of the long request at the upstream

    def add(self, who: Who, scenario: str, sample: Sample) -> None:
        self.samples[who][scenario].append(sample)

    def series(self, who: Who, scenario: str, quantity: str) -> list[float]:
        """The measured values of all repetitions."""
        samples = self.samples[who][scenario] if who in self.samples else []
        values = [getattr(sample, quantity) for sample in samples]
        return [value for value in values if value is not None]

    def protocols_of(self, gateway: str) -> list[str]:
        return [who.protocol for who in self.samples if who.gateway == gateway]

    def wrong(self) -> list[tuple[Who, str, Sample]]:
        """The samples with wrong answers."""
        return [
            (who, scenario, sample)
            for who, scenarios in self.samples.items()
            for scenario, samples in scenarios.items()
            for sample in samples
            if sample.right < sample.asked
        ]

    def foreign_cores(self) -> float:
        every = [
            sample for scenarios in self.samples.values() for each in scenarios.values() for sample in each
        ]
        return statistics.median(
            [sample.foreign_cores for sample in every if sample.foreign_cores is not None] or [0]
        )

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for who, scenarios in self.samples.items():
            shown = {name: [_numbers(sample) for sample in samples] for name, samples in scenarios.items()}
            found.setdefault(who.gateway, {})[who.protocol] = shown
        return found


def _numbers(sample: Sample) -> dict[str, Any]:
    return {name: value for name, value in asdict(sample).items() if value not in (None, [])}
