"""The delivered Prometheus and Grafana files name metrics that exist, and Prometheus accepts them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from gunicorn_bridge import ROOT

from bridge.observe import metrics, state_metrics

DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus-alerts.yml"
DASHBOARD = DEPLOY / "grafana-dashboard.json"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="Prometheus' promtool is not installed")


def expressions(file: Path) -> list[str]:
    if file == ALERTS:
        return [
            rule["expr"] for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]
        ]
    return [target["expr"] for panel in json.loads(file.read_text())["panels"] for target in panel["targets"]]


def series() -> dict[str, set[str]]:
    """The labels of each series that the bridge can have."""
    assert state_metrics.REGISTRY is metrics.REGISTRY
    found = {}
    for each in {id(each): each for each in metrics.REGISTRY._collector_to_names}.values():
        for family in each.describe():
            labels = set(getattr(each, "_labelnames", ()))
            suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(
                family.type, [""]
            )
            for suffix in suffixes:
                found[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    for family in metrics._Moment(0, 0, "a").collect():
        found[family.name] = {name for sample in family.samples for name in sample.labels}
    return found


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=lambda path: path.name)
def test_every_metric_and_label_exists(file: Path) -> None:
    known = series()
    used = 0
    for expression in expressions(file):
        for name, selected in re.findall(r"\b(gemini_bridge_\w+)(?:\{([^}]*)\})?", expression):
            used += 1
            assert name in known, expression
            assert set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selected)) <= known[name] | {"instance", "job"}
        grouped = {
            word for group in re.findall(r"\bby \(([^)]*)\)", expression) for word in group.split(", ")
        }
        assert grouped <= set().union(*known.values()) | {"instance"}, expression
    assert used >= 8


def test_the_panels_do_not_overlap_and_have_a_title() -> None:
    taken = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert panel["title"]
        assert not cells & taken, panel["title"]
        assert max(column for column, _ in cells) < 24
        taken |= cells


@needs_promtool
def test_prometheus_accepts_the_configuration_and_the_alarms() -> None:
    for arguments in (["check", "config", "prometheus.yml"], ["check", "rules", "--lint=all", ALERTS.name]):
        tried = subprocess.run(
            [PROMTOOL, *arguments], cwd=DEPLOY, capture_output=True, text=True, timeout=60, check=False
        )
        assert tried.returncode == 0, tried.stdout + tried.stderr


@needs_promtool
def test_prometheus_accepts_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, expression in enumerate(expressions(DASHBOARD))
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    tried = subprocess.run(
        [PROMTOOL, "check", "rules", file], capture_output=True, text=True, timeout=60, check=False
    )
    assert tried.returncode == 0, tried.stdout + tried.stderr


#: Alarm, series with its values at intervals of a minute, and the minute at which the alarm must be there.
FIRING = [
    ("GeminiBridgeDown", {'up{job="gemini-bridge", instance="a"}': "1 0x10"}, 6),
    (
        "GeminiBridgeFailures",
        {
            'gemini_bridge_requests_total{error="timeout", model="m", instance="a"}': "0+2x60",
            'gemini_bridge_requests_total{error="none", model="m", instance="a"}': "0+8x60",
        },
        40,
    ),
    (
        "GeminiBridgeMisconfigured",
        {'gemini_bridge_requests_total{error="misconfigured", instance="a"}': "0x5 1x10"},
        9,
    ),
    (
        "GeminiBridgeStreamWithoutEnd",
        {'gemini_bridge_streams_without_terminal_event_total{instance="a"}': "0x5 1x10"},
        9,
    ),
    ("GeminiBridgeUsageLost", {'gemini_bridge_accounts_rows_dropped_total{instance="a"}': "0x5 40x10"}, 9),
    ("GeminiBridgeFull", {'gemini_bridge_memory_refused_total{instance="a"}': "0+1x60"}, 30),
    ("GeminiBridgeStateDatabaseAway", {'gemini_bridge_state_database_away{instance="a"}': "0 2x20"}, 10),
]


@needs_promtool
@pytest.mark.parametrize("fires", [True, False])
@pytest.mark.parametrize(("alarm", "values", "minute"), FIRING, ids=[row[0] for row in FIRING])
def test_an_alarm_fires(alarm: str, values: dict[str, str], minute: int, fires: bool, tmp_path: Path) -> None:
    """Without the failures no alarm fires."""
    calm = {name: "1x60" if name.startswith("up") else "0x60" for name in values}
    shown = [{"series": name, "values": text} for name, text in (values if fires else calm).items()]
    queries = [
        {"expr": f'count(ALERTS{{alertname="{alarm}", alertstate="firing"}})', "eval_time": f"{minute}m"}
    ]
    queries[0]["exp_samples"] = [{"value": 1}] if fires else []
    test = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": shown, "promql_expr_test": queries}],
    }
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump(test))
    tried = subprocess.run(
        [PROMTOOL, "test", "rules", file], capture_output=True, text=True, timeout=60, check=False
    )
    assert tried.returncode == 0, tried.stdout + tried.stderr
