"""The real bridge under the real gunicorn, on a free port."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from unit_file import directives
from waiting import eventually

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Bridge:
    address: str
    log: Path
    state: Path
    process: subprocess.Popen[bytes]

    def lines(self) -> str:
        return self.log.read_text()

    def log_entries(self, **fields: Any) -> list[dict[str, Any]]:
        """Return the complete log entries with these field values."""
        lines = [json.loads(line) for line in self.lines().split("\n")[:-1] if line.startswith("{")]
        return [line for line in lines if fields.items() <= line.items()]

    def requests(self, **fields: Any) -> list[dict[str, Any]]:
        """Return the log entry of each request."""
        return self.log_entries(message="request", **fields)

    def request(self, **fields: Any) -> dict[str, Any]:
        """Return the last request entry; wait for it, as a stream is logged after its last byte."""
        found = eventually(lambda: self.requests(**fields))
        assert found, f"no request with {fields} in\n{self.lines()[-4000:]}"
        return found[-1]

    def workers(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def descriptors(self) -> int:
        """Count the open files and sockets of all workers."""
        return sum(len(os.listdir(f"/proc/{worker}/fd")) for worker in self.workers())

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


def memory_environment() -> dict[str, str]:
    """Return the memory settings of the C library that the service uses."""
    given = (each.partition("=") for each in directives()["Environment"])
    return {name: value for name, _, value in given if name == "GLIBC_TUNABLES"}


#: Bound sockets that never listen: Linux assigns such a port only on explicit request.
_HELD: list[socket.socket] = []


def free_port() -> int:
    """Return a port that no other test gets, however late a process listens on it."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = int(held.getsockname()[1])
    if sys.platform == "linux":
        _HELD.append(held)
    else:
        held.close()
    return port


def clean_environment() -> dict[str, str]:
    """Return the environment without the developer's settings, which could select a real Gemini."""
    ours = ("BRIDGE_", "GEMINI_", "GOOGLE_", "DEBUG", "DEFAULT_MODEL", "CODER_AGENT_", "USE_CCPA", "OPENAI_")
    ours += ("PROMETHEUS_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@contextmanager
def gunicorn_bridge(
    program: str = "app:app", *, root: Path = ROOT, port: int = 0, **environment: str
) -> Iterator[Bridge]:
    """`port`: 0 for a new one."""
    port = port or free_port()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        env = clean_environment() | {
            "CODER_AGENT_PORT": str(port),
            "BRIDGE_STATE_DIR": folder,
            "BRIDGE_SERVER__GRACEFUL_TIMEOUT": "5",
            **memory_environment(),
            **environment,
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", program],
                cwd=root,
                env=env,
                stderr=output,
                stdout=output,
            )
        try:
            bridge = Bridge(f"http://127.0.0.1:{port}", log, Path(folder), process)
            eventually(lambda: process.poll() is not None or serves(f"{bridge.address}/readyz"), 60)
            assert process.poll() is None, bridge.lines()
            assert serves(f"{bridge.address}/readyz"), f"the bridge did not start:\n{bridge.lines()}"
            yield bridge
        finally:
            process.terminate()
            process.wait(60)


def serves(url: str) -> bool:
    """Whether a process serves this URL; a starting or overloaded one does not."""
    try:
        return requests.get(url, timeout=10).ok
    except (requests.ConnectionError, requests.Timeout):
        return False
