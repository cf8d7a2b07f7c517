"""The gateways between the clients and the fake Gemini: how each starts, and which protocols it speaks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Command
from bench.protocols import CHAT, GEMINI, MESSAGES, RESPONSES, Protocol
from bridge.cli.serve import MEMORY

THREADS = "256"  #: as many as the floor has, and more than S3 has streams
GUNICORN = (sys.executable, "-m", "gunicorn")


@dataclass(frozen=True, slots=True)
class Place:
    """The port on which a gateway listens, the address of its upstream, and its own folder."""

    port: int
    upstream: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Gateway:
    name: str
    protocols: tuple[Protocol, ...]
    command: Callable[[Place], Command]
    headers: Callable[[Place], Mapping[str, str]] = lambda place: {}


def _floor(place: Place) -> Command:
    words = ("-c", "bench/floor_gunicorn.py", "-b", f"127.0.0.1:{place.port}", "bench.floor:app")
    return Command((*GUNICORN, *words), {"BENCH_UPSTREAM": place.upstream})


def bridge_command(place: Place, more: Mapping[str, str]) -> Command:
    """With its default settings, guards and log, but one worker and enough threads for all streams."""
    return Command(
        (*GUNICORN, "-c", "gunicorn.conf.py", "app:app"),
        {
            "GEMINI_API_KEY": "bench-key-0000",
            "GOOGLE_GEMINI_BASE_URL": place.upstream,
            "CODER_AGENT_PORT": str(place.port),
            "BRIDGE_STATE_DIR": str(place.folder),
            "BRIDGE_SERVER__WORKERS": "1",
            "BRIDGE_SERVER__THREADS": THREADS,
            "BRIDGE_SERVER__GRACEFUL_TIMEOUT": "4",
            **MEMORY,
            **more,
        },
    )


FLOOR = Gateway("floor", (GEMINI,), _floor)
BRIDGE = Gateway("bridge", (CHAT, RESPONSES, MESSAGES), lambda place: bridge_command(place, {}))
