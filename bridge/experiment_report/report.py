"""Compares the arms of an experiment, from the requests that the usage store has kept."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from bridge.experiment_report.statistics import (
    Estimate,
    difference,
    quantile,
    ratio,
    share,
    split_probability,
    units_needed,
)
from bridge.settings.experiments import KEY, Experiment
from bridge.state.usage_store import Assignment, ExperimentRequest

#: A split with a smaller probability is a mistake, of the bridge or of a filter before it.
SUSPICIOUS = 0.001
#: With fewer units in an arm there is no verdict: intervals of means need some dozens.
FEWEST_UNITS = 30
#: More units than this: the difference is too small to be found.
MOST_UNITS = 1_000_000

BETTER, WORSE, UNKNOWN = "better", "worse", "not known yet"
INELIGIBLE, CHOSEN, MOVED, OTHER = "ineligible", "chosen", "moved", "other arms"

Unit = Sequence[ExperimentRequest]


class Metric(NamedTuple):
    name: str
    kind: str  #: money, seconds or share
    measure: Callable[[Sequence[Unit]], Estimate | None]
    less_is_better: bool = True


class Comparison(NamedTuple):
    """One metric of an arm beside that of the control. A value is None if no request shows it."""

    metric: Metric
    control: Estimate | None
    arm: Estimate | None
    change: Estimate | None = None
    verdict: str = UNKNOWN
    more_units: int | None = None  #: about so many are missing for a verdict; None: not known


class ArmReport(NamedTuple):
    name: str
    units: int
    requests: int
    comparisons: Sequence[Comparison]  #: of the control with itself: no changes and no verdicts


class Report(NamedTuple):
    arms: Sequence[ArmReport]  #: the control first
    shadows: Sequence[
        ArmReport
    ]  #: beside the control, by single requests; the control first, if there are any
    left_out: Mapping[str, int]  #: units that are in no arm, by reason
    split: float  #: the probability of a split as uneven as that of the arms

    @property
    def suspicious(self) -> bool:
        return self.split < SUSPICIOUS


def make_report(experiment: Experiment, requests: Iterable[ExperimentRequest]) -> Report:
    shadowed: list[ExperimentRequest] = []
    real: list[ExperimentRequest] = []
    for request in requests:
        (shadowed if request.assignment == Assignment.SHADOW else real).append(request)
    by_arm, left_out = _units_by_arm(experiment, real)
    names = [arm.name for arm in experiment.arms]
    return Report(
        _compared({name: by_arm.get(name, []) for name in names}, METRICS),
        _shadows(experiment, by_arm.get(names[0], []), shadowed),
        left_out,
        split_probability(
            [len(by_arm.get(name, [])) for name in names], [arm.weight for arm in experiment.arms]
        ),
    )


# --- units --------------------------------------------------------------------------------------------


def _units_by_arm(
    experiment: Experiment, requests: Iterable[ExperimentRequest]
) -> tuple[dict[str, list[Unit]], Mapping[str, int]]:
    units: dict[str, list[ExperimentRequest]] = {}
    for request in requests:
        name = request.key if experiment.unit == KEY else request.conversation
        units.setdefault(name, []).append(request)
    by_arm: dict[str, list[Unit]] = {}
    left_out: Counter[str] = Counter()
    for unit in units.values():
        if (reason := _reason_to_leave_out(unit, experiment)) is None:
            by_arm.setdefault(unit[0].arm, []).append(unit)
        else:
            left_out[reason] += 1
    return by_arm, left_out


def _reason_to_leave_out(unit: Unit, experiment: Experiment) -> str | None:
    marks = {request.assignment for request in unit}
    arms = {request.arm for request in unit}
    if Assignment.CHOSEN in marks:
        return CHOSEN
    if Assignment.INELIGIBLE in marks:
        return INELIGIBLE
    if len(arms) > 1:
        return MOVED
    return None if arms <= {arm.name for arm in experiment.arms} else OTHER


def _shadows(
    experiment: Experiment, control: Sequence[Unit], shadowed: Sequence[ExperimentRequest]
) -> Sequence[ArmReport]:
    """Shadows get single requests, so here each request is a unit of its own."""
    by_shadow: dict[str, list[Unit]] = {shadow.name: [] for shadow in experiment.shadows}
    for request in shadowed:
        if request.arm in by_shadow:
            by_shadow[request.arm].append([request])
    if not by_shadow:
        return ()
    requests: list[Unit] = [[request] for unit in control for request in unit]
    return _compared({experiment.control.name: requests, **by_shadow}, METRICS)


# --- metrics ------------------------------------------------------------------------------------------


def _cost(units: Sequence[Unit]) -> Estimate | None:
    """Units with a request without a price are left out."""
    costs = [[request.cost for request in unit] for unit in units]
    return ratio([(math.fsum(filter(None, unit)), 1.0) for unit in costs if None not in unit])


def _first_token(p: float) -> Callable[[Sequence[Unit]], Estimate | None]:
    def measure(units: Sequence[Unit]) -> Estimate | None:
        waits = [[each.first_byte for each in unit if each.first_byte is not None] for unit in units]
        return quantile(waits, p)

    return measure


def _total(p: float) -> Callable[[Sequence[Unit]], Estimate | None]:
    return lambda units: quantile([[each.seconds for each in unit] for unit in units], p)


def _share_of(has: Callable[[ExperimentRequest], object]) -> Callable[[Sequence[Unit]], Estimate | None]:
    """The share of units with at least one such request."""
    return lambda units: share(sum(any(map(has, unit)) for unit in units), len(units))


def _cached(units: Sequence[Unit]) -> Estimate | None:
    return ratio(
        [
            (float(sum(each.cached for each in unit)), float(sum(each.input + each.cached for each in unit)))
            for unit in units
        ]
    )


METRICS = (
    Metric("cost", "money", _cost),
    Metric("first token p50", "seconds", _first_token(0.5)),
    Metric("first token p95", "seconds", _first_token(0.95)),
    Metric("total p50", "seconds", _total(0.5)),
    Metric("total p95", "seconds", _total(0.95)),
    Metric("errors", "share", _share_of(lambda request: request.failed)),
    Metric("malformed calls", "share", _share_of(lambda request: request.malformed)),
    Metric("fallbacks", "share", _share_of(lambda request: request.fallbacks)),
    Metric("cached share", "share", _cached, less_is_better=False),
)


# --- comparisons --------------------------------------------------------------------------------------


def _compared(by_arm: Mapping[str, Sequence[Unit]], metrics: Sequence[Metric]) -> Sequence[ArmReport]:
    """The first arm is the control."""
    control = next(iter(by_arm.values()))
    before = [metric.measure(control) for metric in metrics]
    reports = []
    for units in by_arm.values():
        pairs = list(zip(metrics, before, strict=True))
        if units is control:
            comparisons = [Comparison(metric, old, old) for metric, old in pairs]
        else:
            sizes = (len(control), len(units))
            comparisons = [_comparison(metric, old, metric.measure(units), sizes) for metric, old in pairs]
        reports.append(comparisons)
    return [
        ArmReport(name, len(units), sum(map(len, units)), comparisons)
        for (name, units), comparisons in zip(by_arm.items(), reports, strict=True)
    ]


def _comparison(
    metric: Metric, old: Estimate | None, new: Estimate | None, sizes: tuple[int, int]
) -> Comparison:
    if old is None or new is None:
        return Comparison(metric, old, new)
    change = difference(new, old)
    known = min(sizes) >= FEWEST_UNITS and (change.low > 0 or change.high < 0)
    if known:
        verdict = BETTER if (change.value < 0) == metric.less_is_better else WORSE
        return Comparison(metric, old, new, change, verdict)
    return Comparison(metric, old, new, change, more_units=_more_units(change, sizes))


def _more_units(change: Estimate, sizes: tuple[int, int]) -> int | None:
    """To two digits. The arms keep their proportions, so the smaller one decides when it is large enough."""
    now, smallest = sum(sizes), min(sizes)
    wanted = units_needed(change, now)
    if smallest:
        wanted = max(wanted, now * FEWEST_UNITS / smallest)
    if not smallest or wanted > MOST_UNITS:
        return None
    more = max(wanted - now, 1.0)
    step = int(10 ** max(math.floor(math.log10(more)) - 1, 0))
    return math.ceil(more / step) * step
