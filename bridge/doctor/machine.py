"""Checks how the service runs: the configuration, dangerous gunicorn settings and the systemd unit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bridge.doctor.configuration import STATE_FOLDER, inspect
from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.doctor.gunicorn_settings import GunicornSettings, gunicorn_settings
from bridge.server.slots import SPARE_THREADS
from bridge.settings import Settings

UNIT = "gemini-bridge.service"
SYSTEMD = Path("/run/systemd/system")  #: exists only if the machine runs systemd
PROPERTIES = ("LoadState", "ActiveState", "SubState", "UnitFileState", "NeedDaemonReload", "TimeoutStopUSec")
FEW_ANSWERS = 32
LOOPBACK = ("127.", "localhost", "[::1]", "unix:")
#: Seconds by which systemd's stop timeout must exceed graceful_timeout.
MARGIN = 10


def check_configuration(_installation: Installation) -> Finding:
    inspected = [each for each in inspect() if each.name != STATE_FOLDER]  # it has a check of its own
    errors = dict.fromkeys(each.error for each in inspected if each.error)
    if errors:
        return red("; ".join(errors), "fix the configuration, then run: gemini-bridge check")
    return green(f"{len(inspected)} files and parts are valid; gemini-bridge check lists them")


# --- gunicorn ----------------------------------------------------------------------------------------


def check_gunicorn(installation: Installation) -> Finding:
    server = gunicorn_settings()
    errors = list(_errors(server, installation.settings))
    if errors:
        return red("; ".join(errors), "use gunicorn.conf.py of this release, and unset GUNICORN_CMD_ARGS")
    warnings = list(_warnings(server))
    if warnings:
        return yellow("; ".join(warnings), "see “Capacity” and “nginx” in docs/OPERATIONS.md")
    return green(
        f"{_answers(server)} answers at the same time ({server.workers} workers × {server.threads} threads)"
    )


def _answers(server: GunicornSettings) -> int:
    return server.workers * (server.threads - SPARE_THREADS)


def _errors(server: GunicornSettings, settings: Settings) -> Iterator[str]:
    if server.threads != settings.server.threads:
        yield f"threads: gunicorn uses {server.threads}, but server.threads is {settings.server.threads}"
    if not server.threaded:
        yield "worker_class: gunicorn kills workers without threads in the middle of a long answer"
    if server.max_requests:
        yield "max_requests: a worker that restarts accepts no requests until its answers have ended"
    if server.preload_app:
        yield "preload_app: connections opened before the fork do not work in the workers"
    if 0 < server.timeout < 30:
        yield f"timeout: after only {server.timeout} seconds gunicorn kills a busy worker"


def _warnings(server: GunicornSettings) -> Iterator[str]:
    if _answers(server) < FEW_ANSWERS:
        yield f"only {_answers(server)} answers at the same time; further requests are rejected"
    if server.workers > 2 * (os.cpu_count() or 1):
        yield f"{server.workers} workers are too many for {os.cpu_count()} CPU cores"
    if not all(address.startswith(LOOPBACK) for address in server.bind):
        yield f"{', '.join(server.bind)} is open to the network, so slow clients can block all threads"


# --- systemd -----------------------------------------------------------------------------------------


def check_unit(installation: Installation) -> Finding:
    if not SYSTEMD.is_dir() or shutil.which("systemctl") is None:
        return green("not used on this machine")
    unit = _properties()
    if unit.get("LoadState") != "loaded":
        return yellow(f"{UNIT} is {unit.get('LoadState', 'unknown')}", "install it: deploy/install.sh")
    if unit["ActiveState"] not in ("active", "reloading"):
        state = f"{unit['ActiveState']} ({unit['SubState']})"
        return red(f"{UNIT} is {state}", "systemctl start gemini-bridge; journalctl -u gemini-bridge -n 50")
    return _running_unit(unit, installation.settings)


def _running_unit(unit: dict[str, str], settings: Settings) -> Finding:
    stop_timeout, needed = _seconds(unit["TimeoutStopUSec"]), settings.server.graceful_timeout
    if stop_timeout < needed + MARGIN:
        return red(
            f"systemd kills the service {stop_timeout:.0f} seconds after a stop, but running answers may "
            f"take {needed} seconds (server.graceful_timeout)",
            f"systemctl edit gemini-bridge: [Service] TimeoutStopSec={needed + 3 * MARGIN}",
        )
    if unit["UnitFileState"] != "enabled":
        return yellow("the service does not start at boot", "systemctl enable gemini-bridge")
    if unit["NeedDaemonReload"] == "yes":
        return yellow("the unit file changed after systemd read it", "systemctl daemon-reload")
    return green(f"{UNIT} is active and starts at boot")


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
    """The seconds of a systemd time span such as `2min 30s` or `infinity`."""
    parts = re.findall(r"([\d.]+)(h|min|ms|us|s)\b", span)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float("inf")
