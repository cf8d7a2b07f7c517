"""How it is run here: the configuration, gunicorn's known traps, and the systemd unit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bridge.doctor.configuration import inspect
from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.doctor.gunicorn_settings import GunicornSettings, gunicorn_settings
from bridge.server.slots import SPARE_THREADS
from bridge.settings import Settings

UNIT = "gemini-bridge.service"
SYSTEMD = Path("/run/systemd/system")  #: there if, and only if, systemd runs the machine
PROPERTIES = ("LoadState", "ActiveState", "SubState", "UnitFileState", "NeedDaemonReload", "TimeoutStopUSec")
FEW_ANSWERS = 32
LOOPBACK = ("127.", "localhost", "[::1]", "unix:")
#: Seconds that systemd must leave over, after answers had their time to end.
MARGIN = 10


def check_configuration(_patient: Installation) -> Finding:
    inspected = inspect()
    errors = [each.error for each in inspected if each.error]
    if errors:
        return red("; ".join(errors), "mend it; gemini-bridge check looks again")
    return green(f"{len(inspected)} things checked; gemini-bridge check lists them")


# --- gunicorn ----------------------------------------------------------------------------------------


def check_gunicorn(installation: Installation) -> Finding:
    server = gunicorn_settings()
    traps = list(_traps(server, installation.settings))
    if traps:
        return red("; ".join(traps), "leave it as gunicorn.conf.py has it, and GUNICORN_CMD_ARGS unset")
    doubts = list(_doubts(server))
    if doubts:
        return yellow("; ".join(doubts), "see “Capacity” and “nginx” in docs/OPERATIONS.md")
    return green(
        f"{_answers(server)} answers at once: workers × threads is {server.workers} × {server.threads}"
    )


def _answers(server: GunicornSettings) -> int:
    return server.workers * (server.threads - SPARE_THREADS)


def _traps(server: GunicornSettings, settings: Settings) -> Iterator[str]:
    if server.threads != settings.server.threads:
        yield f"gunicorn has {server.threads} threads, and the bridge counts on {settings.server.threads}"
    if not server.threaded:
        yield "a worker without threads is killed in the middle of a long answer"
    if server.max_requests:
        yield "max_requests: a worker that retires takes nothing new until its answers have ended"
    if server.preload_app:
        yield "preload_app: connections made before the fork break in the workers"
    if 0 < server.timeout < 30:
        yield f"timeout {server.timeout}: a busy worker is taken for dead"


def _doubts(server: GunicornSettings) -> Iterator[str]:
    if _answers(server) < FEW_ANSWERS:
        yield f"only {_answers(server)} answers at once, each in a thread; what is more is turned away"
    if server.workers > 2 * (os.cpu_count() or 1):
        yield f"{server.workers} workers on {os.cpu_count()} cores"
    if not all(address.startswith(LOOPBACK) for address in server.bind):
        yield f"{', '.join(server.bind)} is open to the network, where slow clients can hold every thread"


# --- systemd -----------------------------------------------------------------------------------------


def check_unit(installation: Installation) -> Finding:
    if not SYSTEMD.is_dir() or shutil.which("systemctl") is None:
        return green("does not run this machine")
    unit = _properties()
    if unit.get("LoadState") != "loaded":
        return yellow(f"{UNIT} is {unit.get('LoadState', 'unknown')}", "deploy/install.sh installs it")
    if unit["ActiveState"] not in ("active", "reloading"):
        state = f"{unit['ActiveState']} ({unit['SubState']})"
        return red(f"{UNIT} is {state}", "systemctl start gemini-bridge; journalctl -u gemini-bridge -n 50")
    return _running_unit(unit, installation.settings)


def _running_unit(unit: dict[str, str], settings: Settings) -> Finding:
    patience, wanted = _seconds(unit["TimeoutStopUSec"]), settings.server.graceful_timeout
    if patience < wanted + MARGIN:
        return red(
            f"systemd kills it {patience:.0f} s after a stop, and answers may take {wanted} s to end",
            f"systemctl edit gemini-bridge: [Service] TimeoutStopSec={wanted + 3 * MARGIN}",
        )
    if unit["UnitFileState"] != "enabled":
        return yellow("it does not start with the machine", "systemctl enable gemini-bridge")
    if unit["NeedDaemonReload"] == "yes":
        return yellow("the unit was changed since systemd read it", "systemctl daemon-reload")
    return green(f"{UNIT} is active and starts with the machine")


def _properties() -> dict[str, str]:
    shown = subprocess.run(
        ["systemctl", "show", UNIT, f"--property={','.join(PROPERTIES)}"],
        capture_output=True,
        text=True,
        timeout=5,
        check=False,
    )
    return {name: value for name, _, value in (line.partition("=") for line in shown.stdout.splitlines())}


_UNITS = {"h": 3600.0, "min": 60.0, "s": 1.0, "ms": 0.001, "us": 0.000_001}


def _seconds(span: str) -> float:
    """`2min 30s`, as systemd writes it; `infinity` too."""
    parts = re.findall(r"([\d.]+)(h|min|ms|us|s)\b", span)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float("inf")
