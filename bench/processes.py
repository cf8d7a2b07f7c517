"""The measured processes: starts them, reads their CPU time and memory, and stops them by their ids."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent

#: The developer's own settings must not influence the measurement.
_OWN = (
    *("BRIDGE_", "GEMINI_", "GOOGLE_", "DEBUG", "DEFAULT_MODEL", "CODER_AGENT_", "USE_CCPA"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE", "GUNICORN_", "WEB_CONCURRENCY", "LITELLM_"),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Command:
    words: tuple[str, ...]
    environment: Mapping[str, str]


class Process:
    """A command with all processes that it starts."""

    def __init__(self, command: Command, log: Path) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command.words,
                cwd=ROOT,
                env={**clean, **command.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def tree(self) -> list[int]:
        return _tree(self._process.pid)

    def insist(self) -> None:
        """Raise an error with the log if the process has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self._process.args!r} ended:\n{self._log.read_text()[-4000:]}")

    def cpu_seconds(self) -> float:
        return sum(map(_cpu_seconds, self.tree()))

    def resident_mb(self) -> float:
        return sum(_kilobytes(pid, "status", "VmRSS:") for pid in self.tree()) / 1024

    def proportional_mb(self) -> float:
        """Like `resident_mb`, but shared memory counts once."""
        return sum(_kilobytes(pid, "smaps_rollup", "Pss:") for pid in self.tree()) / 1024

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        with suppress(ProcessLookupError):  # remaining child processes are still in its group
            os.killpg(self._process.pid, signal.SIGKILL)


def _tree(pid: int) -> list[int]:
    found = [pid]
    with suppress(FileNotFoundError, ProcessLookupError):  # the process may end meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _tree(int(child))
    return found


def _cpu_seconds(pid: int) -> float:
    """CPU time of all threads, ended threads too: the precise clock of clock_getcpuclockid(3)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _kilobytes(pid: int, file: str, label: str) -> int:
    try:
        text = Path(f"/proc/{pid}/{file}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(text.partition(label)[2].split(maxsplit=1)[0])


def machine_cpu_seconds() -> float:
    """CPU time of all processes of this machine, without idle time and waiting for disks."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
