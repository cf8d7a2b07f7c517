"""The real bridge under the real gunicorn, on a free port."""

from __future__ import annotations

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

import requests

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Bridge:
    address: str
    log: Path

    def lines(self) -> str:
        return self.log.read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clean_environment() -> dict[str, str]:
    """Without the developer's own settings: a test must not depend on them, nor call a real Gemini."""
    ours = ("BRIDGE_", "GEMINI_", "GOOGLE_", "DEBUG", "DEFAULT_MODEL", "CODER_AGENT_", "USE_CCPA", "OPENAI_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@contextmanager
def gunicorn_bridge(**environment: str) -> Iterator[Bridge]:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        env = clean_environment() | {
            "CODER_AGENT_PORT": str(port),
            "BRIDGE_STATE_DIR": folder,
            "BRIDGE_SERVER__GRACEFUL_TIMEOUT": "5",
            **environment,
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "app:app"],
                cwd=ROOT,
                env=env,
                stderr=output,
                stdout=output,
            )
        try:
            bridge = Bridge(f"http://127.0.0.1:{port}", log)
            _wait(bridge, process)
            yield bridge
        finally:
            process.terminate()
            process.wait(20)


def _wait(bridge: Bridge, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, bridge.lines()
        try:
            if requests.get(f"{bridge.address}/readyz", timeout=2).ok:
                return
        except (requests.ConnectionError, requests.Timeout):
            time.sleep(0.05)
    raise AssertionError(f"the bridge did not start:\n{bridge.lines()}")
