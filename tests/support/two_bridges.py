"""Two bridges behind a real nginx, with their state in one real PostgreSQL."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import requests
from command_line import command
from gunicorn_bridge import Bridge, free_port, gunicorn_bridge
from nginx_proxy import NginxProxy, nginx_proxy
from postgres_server import PostgresServer
from scripted_gemini import ScriptedGemini


@dataclass
class Client:
    """One client key, used at an address."""

    secret: str
    address: str
    certificate: Path | None = None

    def __call__(self, method: str, path: str, **options: Any) -> requests.Response:
        headers = {"authorization": f"Bearer {self.secret}", **options.pop("headers", {})}
        verify: Any = self.certificate or True
        return requests.request(
            method, f"{self.address}{path}", headers=headers, verify=verify, timeout=60, **options
        )

    def ask(self, session: str = "", **fields: Any) -> requests.Response:
        headers = {"x-session-id": session} if session else {}
        body = {"model": "gpt-5", "input": "Hello", **fields}
        return self("POST", "/v1/responses", json=body, headers=headers, stream="stream" in fields)

    def answer(self, answer_id: str, query: str = "") -> requests.Response:
        return self("GET", f"/v1/responses/{answer_id}{query}")


@dataclass
class Clients:
    """The same client at each bridge and at nginx."""

    key: str
    one: Client
    two: Client
    front: Client

    def session_of(self, node: str) -> str:
        """A session that nginx sends to this bridge."""
        names = (f"session-{number}" for number in range(100))
        return next(each for each in names if self.front.ask(each).headers["x-bridge-node"] == node)


@dataclass
class Company:
    """Two bridges, and what they share."""

    url: str
    gemini: ScriptedGemini
    bridges: dict[str, Bridge]
    front: NginxProxy

    def command(self, *arguments: str) -> str:
        state = str(self.bridges["one"].state)
        return command(*arguments, BRIDGE_STATE_URL=self.url, BRIDGE_STATE_DIR=state)

    def client(self, *limits: str) -> Clients:
        name = f"key-{uuid4().hex[:8]}"
        secret = self.command("key", "add", name, *limits).strip()
        one, two = (Client(secret, bridge.address) for bridge in self.bridges.values())
        return Clients(name, one, two, Client(secret, self.front.address, self.front.certificate))


def started(
    stack: ExitStack, url: str, gemini: ScriptedGemini, node: str, port: int, **environment: str
) -> Bridge:
    return stack.enter_context(
        gunicorn_bridge(
            port=port,
            BRIDGE_STATE_URL=url,
            GEMINI_API_KEY="AIzaCanary0123456789abcdefghijklmnopqrs",
            GOOGLE_GEMINI_BASE_URL=gemini.address,
            BRIDGE_SERVER__NODE=node,
            BRIDGE_SERVER__GRACEFUL_TIMEOUT="60",
            **environment,
        )
    )


@contextmanager
def two_bridges(database: PostgresServer, folder: Path) -> Iterator[Company]:
    url, gemini = database.new_database(), ScriptedGemini()
    command("state", "upgrade", BRIDGE_STATE_URL=url, BRIDGE_STATE_DIR=str(folder))
    with ExitStack() as stack:
        stack.callback(gemini.close)
        bridges = {node: started(stack, url, gemini, node, free_port()) for node in ("one", "two")}
        addresses = [bridge.address for bridge in bridges.values()]
        front = stack.enter_context(nginx_proxy(folder, *addresses))
        yield Company(url, gemini, bridges, front)


def kill(bridge: Bridge) -> None:
    """End the bridge as a power failure would."""
    bridge.process.send_signal(signal.SIGSTOP)  # else it would start new workers
    for process in [*bridge.workers(), bridge.process.pid]:
        os.kill(process, signal.SIGKILL)
    bridge.process.wait(30)
