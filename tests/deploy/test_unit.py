"""The systemd unit: hardened, and consistent with the rest of the project."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from gunicorn_bridge import memory_environment
from unit_file import UNIT, directives

from bridge.cli.serve import MEMORY
from bridge.settings import ServerSettings
from bridge.settings.source import CREDENTIAL, STATE_CREDENTIAL

MOST_EXPOSED = 2.0

needs_systemd_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is not installed; the directives are compared by the other tests",
)

#: The hardening directives; a machine without systemd-analyze must also detect a missing one.
SANDBOX = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "ProtectProc": "invisible",
    "ProcSubset": "pid",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
    "LimitCORE": "0",
}


def test_every_sandbox_directive_is_set() -> None:
    found = directives()
    assert {name: found[name] for name in SANDBOX} == {name: [value] for name, value in SANDBOX.items()}
    assert found["SystemCallFilter"] == ["@system-service", "~@privileged @resources", "sched_setaffinity"]


def test_the_unit_and_the_command_set_the_same_memory_tunables() -> None:
    (tunables,) = (each for each in directives()["Environment"] if each.startswith("GLIBC_TUNABLES="))
    name, _, value = tunables.partition("=")
    assert {name: value} == MEMORY == memory_environment()


@needs_systemd_analyze
def test_systemd_rates_the_unit_as_little_exposed() -> None:
    analysed = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    level = re.search(r"Overall exposure level for gemini-bridge.service: ([\d.]+)", analysed.stdout)
    assert level, analysed.stderr
    assert float(level[1]) <= MOST_EXPOSED


@needs_systemd_analyze
def test_systemd_accepts_every_directive(tmp_path: Path) -> None:
    """Use existing programs, as the bridge is not installed here."""
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"/opt/gemini-bridge/current/venv/bin/[\w-]+", "/bin/true", UNIT.read_text()))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [line for line in verified.stderr.splitlines() if UNIT.name in line] == []


def test_a_stop_waits_for_running_answers() -> None:
    found = directives()
    assert int(found["TimeoutStopSec"][0]) >= ServerSettings().graceful_timeout + 20
    assert found["KillMode"] == ["mixed"]


def test_a_reload_checks_the_configuration_before_signalling() -> None:
    upgrade, check = directives()["ExecStartPre"]
    assert upgrade == f"-{check.removesuffix('check')}state upgrade"
    assert check.endswith("/gemini-bridge check")
    *_, before, last = directives()["ExecReload"]
    assert before.endswith(f" {check}")
    assert last == "/bin/kill -HUP $MAINPID"


def test_the_key_is_a_systemd_credential_and_not_in_the_unit() -> None:
    found = directives()
    named = (CREDENTIAL, STATE_CREDENTIAL)
    assert found["LoadCredential"] == [f"{name}:/etc/gemini-bridge/credentials/{name}" for name in named]
    assert not any("API_KEY" in value or "STATE_URL" in value for value in found["Environment"])


def test_the_unit_uses_notify_readiness_and_restarts_on_failure() -> None:
    found = directives()
    assert found["Type"] == ["notify"]
    assert found["NotifyAccess"] == ["main"]
    assert found["Restart"] == ["on-failure"]
    assert found["User"] == ["gemini-bridge"]
    assert found["StateDirectory"] == found["RuntimeDirectory"] == found["ConfigurationDirectory"]


def test_every_group_of_directives_has_its_reason() -> None:
    _, _, service = UNIT.read_text().partition("[Service]\n")
    for group in service.strip().split("\n\n"):
        assert group.startswith("#"), group
