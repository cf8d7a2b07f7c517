"""The real bridge under the real gunicorn, on a free port."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from unit_file import directives

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Bridge:
    address: str
    log: Path
    state: Path
    process: subprocess.Popen[bytes]

    def lines(self) -> str:
        return self.log.read_text()

    def requests(self) -> list[dict[str, Any]]:
        """What the log says of each request."""
        lines = (json.loads(line) for line in self.lines().splitlines() if line.startswith("{"))
        return [line for line in lines if line.get("message") == "request"]

    def request_for(self, model: str) -> dict[str, Any] | None:
        """The last one for this model, as the client named it."""
        return next((line for line in reversed(self.requests()) if line.get("model") == model), None)

    def workers(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def descriptors(self) -> int:
        """Open files and sockets of all workers together."""
        return sum(len(os.listdir(f"/proc/{worker}/fd")) for worker in self.workers())

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


def memory_environment() -> dict[str, str]:
    """How the service has the C library deal with memory."""
    given = (each.partition("=") for each in directives()["Environment"])
    return {name: value for name, _, value in given if name == "GLIBC_TUNABLES"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clean_environment() -> dict[str, str]:
    """Without the developer's own settings: a test must not depend on them, nor call a real Gemini."""
    ours = ("BRIDGE_", "GEMINI_", "GOOGLE_", "DEBUG", "DEFAULT_MODEL", "CODER_AGENT_", "USE_CCPA", "OPENAI_")
    ours += ("PROMETHEUS_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@contextmanager
def gunicorn_bridge(program: str = "app:app", *, root: Path = ROOT, **environment: str) -> Iterator[Bridge]:
    port = free_port()
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
            _wait(bridge, process)
            yield bridge
        finally:
            process.terminate()
            process.wait(60)


def _wait(bridge: Bridge, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, bridge.lines()
        try:
            if requests.get(f"{bridge.address}/readyz", timeout=2).ok:
                return
        except (requests.ConnectionError, requests.Timeout):  # a busy machine takes its time
            time.sleep(0.05)
    raise AssertionError(f"the bridge did not start:\n{bridge.lines()}")
