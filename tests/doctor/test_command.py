"""The command `gemini-bridge doctor`: lines, exit codes, and checks that fail or hang."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path

import pytest
from gunicorn_bridge import Bridge

from bridge.cli import main
from bridge.doctor.checks import CHECKS
from bridge.doctor.examination import examine
from bridge.doctor.finding import Check, Finding, Installation, Level, green, red, yellow
from bridge.settings import SettingsError


def with_checks(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    checks = tuple(
        Check(f"check {number}", lambda _, found=found: found)
        for number, found in enumerate(findings, start=1)
    )
    monkeypatch.setattr("bridge.doctor.checks.CHECKS", checks)


def test_a_healthy_bridge_is_all_green_or_yellow(
    demo_bridge: Bridge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CODER_AGENT_PORT", demo_bridge.address.rpartition(":")[2])
    monkeypatch.setenv("BRIDGE_STATE_DIR", str(tmp_path))
    assert main(["doctor", "--url", demo_bridge.address]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert len(lines) == len(CHECKS)
    assert not any(line.startswith("FAIL") for line in lines)
    assert any("streaming works" in line for line in lines)


def test_one_red_line_makes_the_command_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_checks(monkeypatch, green("fine"), yellow("so so", "look"), red("broken", "mend it"))
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "ok    check 1          fine",
        "note  check 2          so so",
        "                       → look",
        "FAIL  check 3          broken",
        "                       → mend it",
    ]
    with_checks(monkeypatch, green("fine"), yellow("so so", "look"))
    assert main(["doctor"]) == 0


def test_json_output_is_machine_readable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_checks(monkeypatch, green("fine"), red("broken", "mend it"))
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == [
        {"check": "check 1", "level": "green", "says": "fine", "remedy": ""},
        {"check": "check 2", "level": "red", "says": "broken", "remedy": "mend it"},
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("", True), ("1", False)])
def test_colours_are_used_only_on_terminals_that_allow_them(
    monkeypatch: pytest.MonkeyPatch, no_color: str | None, coloured: bool
) -> None:
    with_checks(monkeypatch, green("fine"))
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys, "stdout", Terminal())
    main(["doctor"])
    assert sys.stdout.getvalue().startswith("\x1b[32mok  \x1b[0m" if coloured else "ok  ")


def looked(look, longest: float = 10.0) -> Finding:
    ((_, finding),) = examine(Installation(SettingsError("none")), [Check("it", look)], longest)
    return finding


def test_a_crashing_check_is_red_and_does_not_quote_the_exception() -> None:
    def crash(_: Installation) -> Finding:
        raise ValueError("AIzaSecret")

    found = looked(crash)
    assert found.level is Level.RED
    assert "ValueError" in found.says
    assert "AIzaSecret" not in found.says + found.remedy


def test_a_check_that_exits_is_red() -> None:
    assert looked(lambda _: sys.exit(3)).level is Level.RED


def test_a_hanging_check_is_red_after_a_timeout() -> None:
    began = time.monotonic()
    found = looked(lambda _: time.sleep(30), longest=0.2)
    assert time.monotonic() - began < 5
    assert found.level is Level.RED
    assert "timed out" in found.says


def test_without_settings_dependent_checks_are_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRIDGE_SERVER__PORT", "none")
    assert main(["doctor", "--json"]) == 1
    levels = {row["check"]: row["level"] for row in json.loads(capsys.readouterr().out)}
    assert levels["configuration"] == "red"
    assert levels["upstream key"] == levels["service"] == levels["state folder"] == "skipped"
    assert levels["python"] == "green"


def test_every_check_has_a_unique_short_name() -> None:
    from bridge.cli.doctor import WIDTH

    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) == WIDTH
