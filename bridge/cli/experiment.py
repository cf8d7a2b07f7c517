"""`gemini-bridge experiment`: lists the experiments, and reports what one of them has shown."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.cli.table import format_table
from bridge.cli.usage import day_argument
from bridge.settings import Settings, SettingsError, load
from bridge.settings.value import suggestion
from bridge.state.errors import StorageError
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores

if TYPE_CHECKING:
    from bridge.experiment_report.report import ArmReport, Comparison, Report
    from bridge.experiment_report.statistics import Estimate
    from bridge.settings.experiments import Experiment

NO_EXPERIMENT = "config/experiments.toml has no experiment; docs/EXPERIMENTS.md shows one"


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    listing = actions.add_parser("list", help="show all experiments")
    reporting = actions.add_parser("report", help="compare the arms of one experiment")
    reporting.add_argument("name", help="the name of the experiment")
    day = "a number of days such as 7d, or a day such as 2026-11-01 (UTC)"
    first = "the first day of the experiment"
    reporting.add_argument("--since", type=day_argument, help=f"{day}; default: {first}")
    reporting.add_argument("--until", type=day_argument, metavar="UNTIL", help="the last day; default: today")
    for action in (listing, reporting):
        action.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: argparse.Namespace) -> int:
    settings = load()
    if arguments.action == "list":
        _print_list(settings, as_json=arguments.json)
        return 0
    return _print_report(_named(settings, arguments.name), settings, arguments)


EXPERIMENT = Command(
    _run,
    "list experiments, and compare their arms",
    _arguments,
    (
        Example("experiment list", "all experiments of config/experiments.toml with their state"),
        Example(
            "experiment report new-model --since 7d", "what the arms of an experiment have shown in a week"
        ),
    ),
)


# --- list ---------------------------------------------------------------------------------------------


def _print_list(settings: Settings, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_described(each) for each in settings.experiments], indent=2))
    elif not settings.experiments:
        print(NO_EXPERIMENT)
    else:
        rows = [("NAME", "STATE", "ALIASES", "UNIT", "ARMS", "SHADOWS"), *map(_cells, settings.experiments)]
        print("\n".join(format_table(rows)))


def _cells(experiment: Experiment) -> tuple[str, ...]:
    total = sum(arm.weight for arm in experiment.arms)
    arms = ", ".join(f"{arm.name} {arm.weight / total:.4g}" for arm in experiment.arms)
    shadows = ", ".join(f"{shadow.name} {shadow.share:.4g}" for shadow in experiment.shadows)
    aliases = ", ".join(experiment.aliases)
    return experiment.name, _state(experiment), aliases, experiment.unit, arms, shadows or "–"


def _state(experiment: Experiment) -> str:
    day = _today()
    if experiment.runs(day):
        return "runs" if experiment.last_day == date.max else f"runs until {experiment.last_day}"
    return f"begins {experiment.first_day}" if day < experiment.first_day else f"ended {experiment.last_day}"


def _described(experiment: Experiment) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "state": _state(experiment),
        "aliases": list(experiment.aliases),
        "unit": experiment.unit,
        "arms": [
            {"name": arm.name, "weight": arm.weight, "models": list(map(str, arm.models))}
            for arm in experiment.arms
        ],
        "shadows": [
            {"name": shadow.name, "share": shadow.share, "models": list(map(str, shadow.models))}
            for shadow in experiment.shadows
        ],
    }


def _today() -> date:
    return datetime.now(UTC).date()


# --- report -------------------------------------------------------------------------------------------


def _named(settings: Settings, name: str) -> Experiment:
    for experiment in settings.experiments:
        if experiment.name == name:
            return experiment
    names = [experiment.name for experiment in settings.experiments]
    advice = suggestion(name, names) if names else NO_EXPERIMENT
    raise SettingsError(f"no experiment is named {name!r}; {advice}")


def _print_report(experiment: Experiment, settings: Settings, arguments: argparse.Namespace) -> int:
    from bridge.experiment_report.report import make_report

    kept_since = _today() - timedelta(days=settings.accounts.request_days)
    since = max(arguments.since or experiment.first_day, kept_since)
    until = min(arguments.until or _today(), experiment.last_day)
    try:
        requests = open_stores(settings, PATIENT).usage.experiment_requests(experiment.name, since, until)
    except StorageError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILED
    report = make_report(experiment, requests)
    currency = settings.prices.currency
    if arguments.json:
        period = {"since": since.isoformat(), "until": until.isoformat()}
        about = {"name": experiment.name, **period, "currency": currency}
        print(json.dumps({**about, **_as_json(report)}, indent=2))
        return 0
    head = f"{experiment.name}: {', '.join(experiment.aliases)}, by {experiment.unit}"
    print(f"{head}; {since} to {until} (UTC), cost in {currency}")
    print("\n".join(_as_text(experiment, report)))
    if since == kept_since and date.min < experiment.first_day < kept_since:
        days = settings.accounts.request_days
        print(f"\nRequests are kept for {days} days (accounts.request_days): earlier ones are missing.")
    return 0


# --- text ---------------------------------------------------------------------------------------------


def _as_text(experiment: Experiment, report: Report) -> list[str]:
    if not (any(arm.requests for arm in (*report.arms, *report.shadows)) or report.left_out):
        return ["", "No request of this experiment is recorded yet."]
    units = f"{experiment.unit}s"
    lines = _alarm(experiment, report)
    for arm in report.arms[1:] or report.arms:
        lines += ["", *_table(report.arms[0], arm, units, f"cost per {experiment.unit}")]
    for shadow in report.shadows[1:]:
        lines += ["", *_table(report.shadows[0], shadow, "", "cost per request", " (shadow)")]
    if report.left_out:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.left_out.items()))
        lines += ["", f"Left out: {reasons} ({units})."]
    return lines


def _alarm(experiment: Experiment, report: Report) -> list[str]:
    if not report.suspicious:
        return []
    counts = " to ".join(f"{arm.units:,}" for arm in report.arms)
    weights = " to ".join(str(arm.weight) for arm in experiment.arms)
    return [
        "",
        f"WARNING: the {experiment.unit}s are not split as the weights say: {counts}, weights {weights} "
        f"(p = {report.split:.1g}).",
        "Do not trust the comparison. Were the weights changed? Then use --since. Else something removes the",
        "requests of one arm before they are recorded.",
    ]


def _table(control: ArmReport, arm: ArmReport, units: str, cost: str, mark: str = "") -> list[str]:
    rows = [["", control.name, arm.name + mark, "DIFFERENCE", "95 % INTERVAL", "VERDICT"]]
    if units:
        rows.append([units, f"{control.units:,}", f"{arm.units:,}", "", "", ""])
    rows.append(["requests", f"{control.requests:,}", f"{arm.requests:,}", "", "", ""])
    rows += [_row(each, cost, units or "requests") for each in arm.comparisons]
    verdicts = [row.pop() for row in rows]
    table = format_table(rows, right_from=1)
    width = max(map(len, table))
    return [f"{line:<{width}}  {verdict}".rstrip() for line, verdict in zip(table, verdicts, strict=True)]


def _row(each: Comparison, cost: str, units: str) -> list[str]:
    kind = each.metric.kind
    name = cost if kind == "money" else each.metric.name
    values = [_shown(found and found.value, kind) for found in (each.control, each.arm)]
    if each.change is None:
        return [name, *values, "", "", ""]
    low, high = (_shown(bound, kind, signed=True) for bound in (each.change.low, each.change.high))
    change = _shown(each.change.value, kind, signed=True)
    return [name, *values, change, f"{low} to {high}", _verdict(each, units)]


def _verdict(each: Comparison, units: str) -> str:
    from bridge.experiment_report.report import UNKNOWN

    if each.verdict != UNKNOWN:
        return each.verdict
    if each.more_units is None:
        return UNKNOWN
    return f"{UNKNOWN}, needs about {each.more_units:,} more {units}"


def _shown(value: float | None, kind: str, *, signed: bool = False) -> str:
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "?"
    sign = "+" if signed else ""
    if kind == "share":
        return f"{100 * value:{sign}.2f} %"
    return f"{value:{sign},.4f}" if kind == "money" else f"{value:{sign}.2f} s"


# --- JSON ---------------------------------------------------------------------------------------------


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "arms": _arms_as_json(report.arms),
        "shadows": _arms_as_json(report.shadows[1:]),
        "left_out": dict(report.left_out),
        "split_probability": report.split,
        "split_suspicious": report.suspicious,
    }


def _arms_as_json(arms: Sequence[ArmReport]) -> list[dict[str, Any]]:
    return [
        {
            "name": arm.name,
            "units": arm.units,
            "requests": arm.requests,
            "metrics": {each.metric.name: _comparison_as_json(each) for each in arm.comparisons},
        }
        for arm in arms
    ]


def _comparison_as_json(each: Comparison) -> dict[str, Any]:
    found = {"value": each.arm and each.arm.value, "interval": _interval(each.arm)}
    if each.change is None:
        return found
    return {
        **found,
        "difference": each.change.value,
        "difference_interval": _interval(each.change),
        "verdict": each.verdict,
        "more_units": each.more_units,
    }


def _interval(estimate: Estimate | None) -> list[float | None] | None:
    """A bound that is not known is null."""
    if estimate is None:
        return None
    return [bound if math.isfinite(bound) else None for bound in (estimate.low, estimate.high)]
