"""The statistics of experiments, beside published values and simulated feeds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from bridge.experiment_report.statistics import (
    Estimate,
    Z,
    difference,
    quantile,
    ratio,
    share,
    split_probability,
    units_needed,
)


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_wilsons_interval(hits: int, count: int, low: float, high: float) -> None:
    found = share(hits, count)
    assert found.value == hits / count
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


@pytest.mark.parametrize(
    ("new", "old", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((10, 10), (10, 10), -0.2775, 0.2775),
    ],
)
def test_newcombes_examples_of_differences(new, old, low: float, high: float) -> None:
    """Method 10 in table II of his paper."""
    found = difference(share(*new), share(*old))
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_a_mean_is_a_ratio_with_ones() -> None:
    found = ratio([(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)])
    assert found.value == 2
    assert found.standard_error == pytest.approx(1 / math.sqrt(3))
    assert found.high - found.value == pytest.approx(Z / math.sqrt(3))


def test_a_ratio_of_sums_weighs_units_by_their_size() -> None:
    """Residuals by hand: 1 - 2 × 0.5 = 0, 3 - 6 × 0.5 = 0, so the units agree exactly."""
    found = ratio([(1.0, 2.0), (3.0, 6.0)])
    assert found == Estimate(0.5, 0.5, 0.5)
    # (1, 1) and (1, 3): ratio 0.5, residuals 0.5 and -0.5, variance 2 × 0.5 = 1, error 1 / 4.
    assert ratio([(1.0, 1.0), (1.0, 3.0)]).standard_error == pytest.approx(0.25)


def test_values_without_units_are_none() -> None:
    assert (share(0, 0), ratio([]), ratio([(0.0, 0.0)]), quantile([], 0.5), quantile([[]], 0.5)) == (
        None,
    ) * 5


def test_one_unit_has_no_interval() -> None:
    assert ratio([(3.0, 2.0)]) == Estimate(1.5, -math.inf, math.inf)
    assert quantile([[1.0, 2.0, 3.0]], 0.5) == Estimate(2.0, -math.inf, math.inf)


def test_a_quantile_by_hand() -> None:
    """Ten units with one value each: the 50 % quantile is 5, and 5 of 10 lie below. The error of this share
    is sqrt(10 / 9 × 10 × 0.25) / 10 = 0.1667, so the interval goes from the 17.3 % to the 82.7 % quantile."""
    found = quantile([[float(number)] for number in range(1, 11)], 0.5)
    assert found == Estimate(5.0, 2.0, 9.0)


def test_a_high_quantile_of_few_values_has_no_upper_bound() -> None:
    found = quantile([[float(number)] for number in range(20)], 0.95)
    assert (found.value, found.high) == (18.0, math.inf)


@pytest.mark.parametrize(
    ("counts", "weights", "p"),
    [
        ([500, 500], [1, 1], 1.0),
        ([531, 469], [1, 1], 0.0499),  # chi-square 3.844
        ([600, 400], [1, 1], 2.54e-10),
        ([355, 333, 312], [1, 1, 1], 0.2489),  # 2.774, two degrees of freedom: exp(-2.774 / 2)
        ([280, 260, 240, 220], [1, 1, 1, 1], 0.0460),  # 8.0, three degrees of freedom
        ([3, 1], [1, 1], 1.0),  # too few to say
        ([100], [7], 1.0),
    ],
)
def test_the_probability_of_a_split(counts: list[int], weights: list[int], p: float) -> None:
    assert split_probability(counts, weights) == pytest.approx(p, rel=0.01)


def test_the_units_needed_shrink_with_the_square_of_the_difference() -> None:
    small, large = Estimate(1.0, -1.0, 3.0), Estimate(2.0, 0.0, 4.0)
    assert units_needed(small, 100) == pytest.approx(4 * units_needed(large, 100))
    assert units_needed(Estimate(0.0, -1.0, 1.0), 100) == math.inf
    assert units_needed(Estimate(1.0, -math.inf, 1.0), 100) == math.inf


# --- coverage: 95 % of the intervals contain the truth, although requests of a unit resemble each other ---


Feed = list[list[float]]


def feed(chance: random.Random, units: int) -> Feed:
    """Conversations of 1 to 20 requests, each conversation with a speed of its own."""
    made = []
    for _ in range(units):
        speed = chance.lognormvariate(0, 0.7)
        made.append([speed * chance.lognormvariate(0, 0.4) for _ in range(chance.randint(1, 20))])
    return made


def mean_of(units: Feed) -> Estimate:
    return ratio([(sum(unit), float(len(unit))) for unit in units])


def median_of(units: Feed) -> Estimate:
    return quantile(units, 0.5)


@pytest.mark.parametrize(("measure", "truth"), [(mean_of, math.exp((0.7**2 + 0.4**2) / 2)), (median_of, 1.0)])
def test_intervals_of_clustered_skewed_values(measure: Callable[[Feed], Estimate], truth: float) -> None:
    chance = random.Random(7)
    found = [measure(feed(chance, 200)) for _ in range(300)]
    inside = sum(each.low <= truth <= each.high for each in found) / len(found)
    assert 0.90 <= inside <= 0.98


@pytest.mark.parametrize("measure", [mean_of, median_of])
def test_two_equal_arms_differ_in_one_of_twenty_reports(measure: Callable[[Feed], Estimate]) -> None:
    chance = random.Random(8)
    pairs: Sequence[Estimate] = [
        difference(measure(feed(chance, 150)), measure(feed(chance, 150))) for _ in range(300)
    ]
    seen = sum(each.low > 0 or each.high < 0 for each in pairs) / len(pairs)
    assert 0.02 <= seen <= 0.09
