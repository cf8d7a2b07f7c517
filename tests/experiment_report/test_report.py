"""The report of an experiment: units, verdicts, what is left out, and the alarm about the split."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bridge.exchange.experiment_arms import arm_of
from bridge.experiment_report.report import BETTER, UNKNOWN, WORSE, Comparison, Report, make_report
from bridge.settings.experiments import Arm, Experiment, ShadowArm
from bridge.state.usage_store import ExperimentRequest

PAIR = Experiment("x", ("sonnet",), "conversation", (Arm("a", 50), Arm("b", 50)))
BY_KEY = Experiment("x", ("sonnet",), "key", (Arm("a", 50), Arm("b", 50)))


def request(unit: object, arm: str, **different: Any) -> ExperimentRequest:
    usual = ExperimentRequest("ann", f"c{unit}", arm, "", 100, 50, 0.5, 2.0, 0.5, False, 0, 0)
    return usual._replace(**different)


def found(report: Report, metric: str, arm: int = 1) -> Comparison:
    return next(each for each in report.arms[arm].comparisons if each.metric.name == metric)


def both(count: int = 40, **of_b: Any) -> list[ExperimentRequest]:
    """Equal conversations in both arms, but for the second arm's values."""
    arms = [request(f"a{number}", "a", cost=0.4 + 0.2 * (number % 2)) for number in range(count)]
    return arms + [request(f"b{number}", "b", **of_b) for number in range(count)]


@pytest.mark.parametrize(
    ("of_b", "metric", "verdict"),
    [
        ({"cost": 0.1}, "cost", BETTER),
        ({"cost": 0.9}, "cost", WORSE),
        ({"cost": 0.51}, "cost", UNKNOWN),
        ({"cached": 150}, "cached share", BETTER),
        ({"cached": 0}, "cached share", WORSE),
        ({"failed": True}, "errors", WORSE),
        ({"malformed": 3}, "malformed calls", WORSE),
        ({"fallbacks": 1}, "fallbacks", WORSE),
        ({"first_byte": 0.1}, "first token p50", BETTER),
        ({"seconds": 9.0}, "total p95", WORSE),
    ],
)
def test_a_verdict_says_better_worse_or_not_known(of_b: dict[str, Any], metric: str, verdict: str) -> None:
    assert found(make_report(PAIR, both(**of_b)), metric).verdict == verdict


def test_few_units_have_no_verdict_however_clear() -> None:
    assert found(make_report(PAIR, both(29, cost=0.01)), "cost").verdict == UNKNOWN
    assert found(make_report(PAIR, both(30, cost=0.01)), "cost").verdict == BETTER


def test_a_missing_verdict_says_how_many_more_units_are_needed() -> None:
    few = found(make_report(PAIR, both(12, cost=0.01)), "cost")
    assert few.more_units == 36, "60 in all"
    close = found(make_report(PAIR, both(cost=0.51)), "cost")
    assert close.more_units > 80
    assert found(make_report(PAIR, both(cost=0.5)), "cost").more_units is None, "no difference at all"


def test_the_promised_number_of_units_usually_gives_a_verdict() -> None:
    chance = random.Random(5)

    def arms(count: int) -> list[ExperimentRequest]:
        return [
            request(f"{arm}{number}", arm, cost=mean * chance.lognormvariate(0, 0.5))
            for arm, mean in (("a", 1.0), ("b", 1.08))
            for number in range(count)
        ]

    first = found(make_report(PAIR, arms(100)), "cost")
    assert first.verdict == UNKNOWN
    enough = (200 + first.more_units) // 2
    verdicts = [found(make_report(PAIR, arms(enough)), "cost").verdict for _ in range(10)]
    assert verdicts.count(WORSE) >= 6


def test_a_value_that_no_request_shows_is_none() -> None:
    report = make_report(PAIR, both(first_byte=None))
    assert found(report, "first token p50").arm is None
    assert found(report, "first token p50").change is None
    assert make_report(PAIR, []).arms[1].units == 0


def test_units_without_a_price_have_no_cost() -> None:
    report = make_report(PAIR, [*both(cost=0.2), request("extra", "b", cost=None)])
    assert found(report, "cost").arm.value == pytest.approx(0.2)
    assert report.arms[1].units == 41


def test_a_unit_is_a_key_if_the_experiment_says_so() -> None:
    requests = [request(number, "a", key="ann") for number in range(5)]
    requests += [request(number, "b", key="bob") for number in range(5)]
    assert [arm.units for arm in make_report(BY_KEY, requests).arms] == [1, 1]
    assert [arm.units for arm in make_report(PAIR, requests[:5]).arms] == [5, 0]


def test_units_that_would_distort_the_comparison_are_left_out_whole() -> None:
    requests = [
        request(1, "a"),
        request(2, "a"),
        request(2, "a", assignment="ineligible"),
        request(3, "b", assignment="chosen"),
        request(4, "a"),
        request(4, "b"),
        request(5, "of-yesterday"),
    ]
    report = make_report(PAIR, requests)
    assert report.left_out == {"ineligible": 1, "chosen": 1, "moved": 1, "other arms": 1}
    assert [(arm.units, arm.requests) for arm in report.arms] == [(1, 1), (0, 0)]


def test_a_shadow_is_compared_with_the_single_requests_of_the_control() -> None:
    shadow = ShadowArm("s", (), 0.01, 1.0)
    experiment = Experiment("x", ("sonnet",), "conversation", (Arm("a", 1),), (shadow,))
    requests = [request(number // 4, "a", cost=0.4 + 0.1 * (number % 2)) for number in range(160)]
    requests += [request(number, "s", assignment="shadow", cost=0.1) for number in range(40)]
    report = make_report(experiment, requests)
    assert [(arm.units, arm.requests) for arm in report.arms] == [(40, 160)]
    control, copied = report.shadows
    assert (control.units, copied.units) == (160, 40)
    (cost,) = [each for each in copied.comparisons if each.metric.name == "cost"]
    assert (cost.control.value, cost.arm.value) == (pytest.approx(0.45), pytest.approx(0.1))
    assert cost.verdict == BETTER


# --- the split ----------------------------------------------------------------------------------------


def fed(loses: float, weights: tuple[int, int] = (50, 50)) -> Report:
    """Five thousand conversations, of which the second arm loses a share on their way."""
    experiment = Experiment("x", (), "conversation", (Arm("a", weights[0]), Arm("b", weights[1])))
    chance = random.Random(3)
    arms = [(number, arm_of(experiment, str(number)).name) for number in range(5000)]
    return make_report(
        experiment, [request(unit, arm) for unit, arm in arms if arm == "a" or chance.random() >= loses]
    )


@pytest.mark.parametrize("weights", [(50, 50), (90, 10)])
def test_an_honest_feed_raises_no_alarm(weights: tuple[int, int]) -> None:
    assert not fed(0.0, weights).suspicious


@pytest.mark.parametrize("weights", [(50, 50), (80, 20)])
def test_a_biased_feed_raises_the_alarm(weights: tuple[int, int]) -> None:
    report = fed(0.2, weights)
    assert report.suspicious
    assert report.split < 1e-3
