"""Checks of gunicorn's configuration and of the systemd unit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridge.doctor import machine
from bridge.doctor.finding import Level
from bridge.doctor.machine import check_configuration, check_gunicorn, check_unit


def test_the_delivered_gunicorn_configuration_is_green(installation) -> None:
    found = check_gunicorn(installation())
    assert found.level is Level.GREEN
    assert "answers at the same time" in found.says


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--worker-class sync --threads 1", "gunicorn kills workers without threads"),
        ("--max-requests 1000", "max_requests"),
        ("--preload", "preload_app"),
        ("--timeout 5", "after only 5 seconds"),
        ("--threads 4", "threads: gunicorn uses 4, but server.threads is"),
    ],
)
def test_a_dangerous_gunicorn_setting_is_reported(
    installation, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    monkeypatch.setenv("GUNICORN_CMD_ARGS", arguments)
    found = check_gunicorn(installation())
    assert found.level is Level.RED
    assert said in found.says
    assert "GUNICORN_CMD_ARGS" in found.remedy


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BRIDGE_SERVER__THREADS", "16", "only 16 answers at the same time"),
        ("BRIDGE_SERVER__WORKERS", "500", "500 workers are too many"),
        ("BRIDGE_SERVER__HOST", "0.0.0.0", "open to the network"),
    ],
)
def test_a_doubtful_gunicorn_setting_is_yellow(
    installation, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("BRIDGE_ACCESS__OPEN", "true")
    found = check_gunicorn(installation(**{name: value}))
    assert found.level is Level.YELLOW
    assert said in found.says


def test_an_invalid_gunicorn_configuration_is_red_with_its_message(
    installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_configuration(installation()).level is Level.GREEN
    monkeypatch.setenv("BRIDGE_SERVER__PORT", "none")
    found = check_configuration(installation())
    assert found.level is Level.RED
    assert "server.port must be a whole number" in found.says


# --- systemd -----------------------------------------------------------------------------------------

RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "UnitFileState": "enabled",
    "NeedDaemonReload": "no",
    "TimeoutStopUSec": "2min 30s",
}


@pytest.fixture
def systemctl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A machine with systemd, with a unit in this state."""

    def say(**properties: str) -> None:
        lines = "\n".join(f"{name}={value}" for name, value in (RUNNING | properties).items())
        (tmp_path / "systemctl").write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n")
        (tmp_path / "systemctl").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(machine, "SYSTEMD", tmp_path)

    return say


def test_without_systemd_the_unit_is_not_checked(installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SYSTEMD", Path("/no/such/folder"))
    assert check_unit(installation()).level is Level.GREEN


def test_a_running_unit_is_green(installation, systemctl) -> None:
    systemctl()
    assert check_unit(installation()).level is Level.GREEN


@pytest.mark.parametrize(
    ("properties", "level", "remedy"),
    [
        ({"LoadState": "not-found", "ActiveState": "inactive"}, Level.YELLOW, "deploy/install.sh"),
        ({"ActiveState": "failed", "SubState": "failed"}, Level.RED, "journalctl"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, Level.RED, "journalctl"),
        ({"TimeoutStopUSec": "1min 30s"}, Level.RED, "TimeoutStopSec=150"),
        ({"TimeoutStopUSec": "infinity"}, Level.GREEN, ""),
        ({"UnitFileState": "disabled"}, Level.YELLOW, "systemctl enable"),
        ({"NeedDaemonReload": "yes"}, Level.YELLOW, "daemon-reload"),
    ],
)
def test_a_wrong_unit_state_is_reported(
    installation, systemctl, properties: dict[str, str], level: Level, remedy: str
) -> None:
    systemctl(**properties)
    found = check_unit(installation())
    assert found.level is level
    assert remedy in found.remedy


def test_a_systemd_timeout_shorter_than_answers_is_detected(installation, systemctl) -> None:
    systemctl()
    found = check_unit(installation(BRIDGE_SERVER__GRACEFUL_TIMEOUT="300"))
    assert found.level is Level.RED
    assert "TimeoutStopSec=330" in found.remedy
