"""`gemini-bridge experiment list`, and a report of what is not there."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import attempt, command
from experiment_rows import HALVES, settings_folder

MORE = """
[[experiment]]
name = "later"
aliases = ["haiku"]
unit = "key"
from = 2999-01-01
[[experiment.arm]]
name = "today"
weight = 3
[[experiment.shadow]]
name = "copy"
model = "gemini-3.8-flash"
cost_per_day = 1
[[experiment]]
name = "over"
aliases = ["haiku"]
until = 2026-01-01
[[experiment.arm]]
name = "today"
weight = 9
[[experiment.arm]]
name = "other"
weight = 1
thinking = "low"
"""


def test_list_shows_every_experiment_with_its_state(tmp_path: Path) -> None:
    settings = {"BRIDGE_CONFIG_DIR": str(settings_folder(tmp_path, HALVES + MORE))}
    lines = command("experiment", "list", **settings).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["NAME", "halves", "later", "over"]
    assert "runs" in lines[1]
    assert "a 0.5, b 0.5" in lines[1]
    assert "begins 2999-01-01" in lines[2]
    assert lines[2].split()[-4:] == ["today", "1", "copy", "0.01"]
    assert "ended 2026-01-01" in lines[3]
    assert "today 0.9, other 0.1" in lines[3]
    described = json.loads(command("experiment", "list", "--json", **settings))
    assert [each["name"] for each in described] == ["halves", "later", "over"]
    assert described[0]["arms"][1] == {"name": "b", "weight": 50, "models": ["gemini-3.1-pro-preview"]}


def test_without_experiments_the_command_says_where_they_are_defined(tmp_path: Path) -> None:
    settings = {"BRIDGE_STATE_DIR": str(tmp_path)}
    assert "config/experiments.toml has no experiment" in command("experiment", "list", **settings)
    assert json.loads(command("experiment", "list", "--json", **settings)) == []
    missing = attempt("experiment", "report", "x", **settings)
    assert missing.returncode == 2
    assert "no experiment is named 'x'" in missing.stderr


def test_an_experiment_without_requests_has_an_empty_report(tmp_path: Path) -> None:
    config, state = str(settings_folder(tmp_path)), str(tmp_path / "state")
    told = command("experiment", "report", "halves", BRIDGE_CONFIG_DIR=config, BRIDGE_STATE_DIR=state)
    assert "No request of this experiment is recorded yet." in told
    assert not (tmp_path / "state" / "accounts.sqlite3").exists(), "a report creates no file"
