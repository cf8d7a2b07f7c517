"""The benchmark works, from its fake Gemini to its table. These tests check no times."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from gunicorn_bridge import ROOT, clean_environment

PROTOCOLS = {"chat", "responses", "messages"}
GATEWAYS = ("direct", "floor", "bridge", "one upstream", "three upstreams", "sqlite", "postgres")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The quickest run: a few requests of each scenario, and one start."""
    file = tmp_path_factory.mktemp("bench") / "results.json"
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "--smoke", "--postgres", "--upstreams", "--json", str(file)],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout, json.loads(file.read_text())


def test_every_scenario_is_answered_correctly_in_every_protocol(run):
    samples = run[1]["samples"]
    assert set(samples["bridge"]) == PROTOCOLS
    for protocol, scenarios in samples["bridge"].items():
        assert {"S0", "S1", "S1few", "S2", "S3", "S4"} <= set(scenarios), protocol
    for gateway in GATEWAYS:
        found = [each for one in samples[gateway].values() for scenario in one.values() for each in scenario]
        assert all(sample["right"] == sample["asked"] > 0 for sample in found)


def test_the_start_and_the_memory_are_measured(run):
    for protocol, gateway in (("chat", "bridge"), ("gemini", "floor")):
        (sample,) = run[1]["samples"][gateway][protocol]["S5"]
        assert min(sample["start_s"], sample["resident_mb"], sample["proportional_mb"]) > 0


def test_the_long_request_reaches_the_upstream_whole(run):
    passed_on = run[1]["passed_on"]
    for protocol in PROTOCOLS:
        passed = passed_on[f"bridge {protocol}"]
        assert (passed["calls"], passed["results"], passed["tools"]) == (30, 30, 40)
        assert passed["texts"] == passed_on["direct gemini"]["texts"]


def test_each_figure_is_shown_beside_the_floor_and_its_goal(run):
    printed, document = run
    figures = document["figures"]
    for scenario in ("S1", "S2", "S3", "S4"):
        shown = {figure["protocol"] for figure in figures if figure["scenario"] == scenario}
        assert shown == PROTOCOLS, scenario
    goals = [figure for figure in figures if "goal" in figure]
    assert {figure["goal"] for figure in goals} >= {"≤ 1.4 × floor", "≤ 80 MB", "≤ 0.7 s", "≤ 2 ms"}
    assert printed.count("\n| ") == len(figures) + 1
    assert f"of {len(goals)} goals met." in printed


@pytest.mark.parametrize("pair", ["postgres beside sqlite", "three upstreams beside one upstream"])
def test_two_ways_to_run_the_bridge_are_compared(run, pair):
    for compared in ("CPU time of a stream", "time to the first text", "CPU time of a further chunk"):
        assert f"{pair}, {compared}" in run[0]
