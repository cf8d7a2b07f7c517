"""Estimates with 95 % intervals, and differences between two of them.

Requests of one unit, such as a conversation, resemble each other. So every interval is computed from units:
Wilson's for shares of units, the delta method for means and ratios, Woodruff's for quantiles. The interval of
a difference comes from both intervals (Newcombe's method for shares, MOVER in general), so skewed values keep
their skewed intervals.

* E. B. Wilson, 1927, doi:10.1080/01621459.1927.10502953
* R. G. Newcombe, 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I
* R. S. Woodruff, 1952, doi:10.1080/01621459.1952.10483443
* G. Y. Zou, A. Donner, 2008 (MOVER), doi:10.1002/sim.3095
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

Z = 1.959963984540054  #: of a 95 % interval
Z_POWER = 0.8416212335729143  #: for a chance of 80 % to see a difference that exists


class Estimate(NamedTuple):
    """A value with its interval. An infinite bound is not known."""

    value: float
    low: float
    high: float

    @property
    def standard_error(self) -> float:
        return (self.high - self.low) / (2 * Z)


def share(hits: int, count: int) -> Estimate | None:
    """The share of units with some property; None without units."""
    if not count:
        return None
    p, z2 = hits / count, Z * Z / count
    centre = (p + z2 / 2) / (1 + z2)
    half = Z * math.sqrt(p * (1 - p) / count + z2 / (4 * count)) / (1 + z2)
    return Estimate(p, max(0.0, min(centre - half, p)), min(1.0, max(centre + half, p)))


def ratio(units: Sequence[tuple[float, float]]) -> Estimate | None:
    """The ratio of two sums, each unit with its part of both; with 1 as second part it is the mean."""
    found = _ratio_and_error(units)
    if found is None:
        return None
    value, error = found
    return Estimate(value, value - Z * error, value + Z * error)


def _ratio_and_error(units: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    below = math.fsum(unit[1] for unit in units)
    if not below:
        return None
    value, count = math.fsum(unit[0] for unit in units) / below, len(units)
    if count < 2:
        return value, math.inf
    squares = math.fsum((above - value * part) ** 2 for above, part in units)
    return value, math.sqrt(squares * count / (count - 1)) / below


def quantile(units: Sequence[Sequence[float]], p: float) -> Estimate | None:
    """The p-quantile of the values of all units. A bound beyond the largest value is not known."""
    values = sorted(value for unit in units for value in unit)
    if not values:
        return None
    value = values[_rank(p, len(values))]
    below = [(float(bisect_right(sorted(unit), value)), float(len(unit))) for unit in units if unit]
    found = _ratio_and_error(below)
    margin = math.inf if found is None else Z * found[1]
    low = values[_rank(p - margin, len(values))] if p - margin > 0 else -math.inf
    high = values[_rank(p + margin, len(values))] if p + margin < 1 else math.inf
    return Estimate(value, low, high)


def _rank(p: float, count: int) -> int:
    """The place of the quantile in sorted values, by the nearest rank."""
    return min(max(math.ceil(p * count - 1e-9) - 1, 0), count - 1)


def difference(new: Estimate, old: Estimate) -> Estimate:
    """New minus old."""
    value = new.value - old.value
    down = math.hypot(new.value - new.low, old.high - old.value)
    up = math.hypot(new.high - new.value, old.value - old.low)
    return Estimate(value, value - down, value + up)


def units_needed(change: Estimate, units: int) -> float:
    """How many units would probably show a difference of this size, if these units gave this interval."""
    if not change.value or not math.isfinite(change.standard_error):
        return math.inf
    return units * ((Z + Z_POWER) * change.standard_error / abs(change.value)) ** 2


def split_probability(counts: Sequence[int], weights: Sequence[int]) -> float:
    """The probability of a split as uneven as this one, by the chi-square test; 1 with too few units."""
    total = sum(counts)
    expected = [total * weight / sum(weights) for weight in weights]
    if len(counts) < 2 or min(expected) < 5:
        return 1.0
    pairs = zip(counts, expected, strict=True)
    return _chi_square_tail(math.fsum((count - each) ** 2 / each for count, each in pairs), len(counts) - 1)


def _chi_square_tail(value: float, freedom: int) -> float:
    """The regularised upper gamma function of half the value, by its recurrence in steps of one."""
    half = value / 2
    place, tail = (0.5, math.erfc(math.sqrt(half))) if freedom % 2 else (1.0, math.exp(-half))
    while place < freedom / 2:
        tail += math.exp(place * math.log(half) - half - math.lgamma(place + 1)) if half else 0.0
        place += 1
    return min(tail, 1.0)
