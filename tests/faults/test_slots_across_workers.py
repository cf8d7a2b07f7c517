"""More requests than one worker has slots: none is refused while another worker has a free slot."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import requests
from evil_gemini import END, HEAD, Evil, UpstreamCall, framed, text
from gunicorn_bridge import Bridge, gunicorn_bridge
from raw_clients import CHAT, MESSAGES, RawClient
from waiting import eventually

from tests.faults.conftest import SHORT_TIMEOUTS, fresh

#: Two workers with eight slots each.
SMALL = {
    **SHORT_TIMEOUTS,
    "BRIDGE_SERVER__WORKERS": "2",
    "BRIDGE_SERVER__THREADS": "16",
    "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "60",
    "BRIDGE_UPSTREAM__READ_TIMEOUT": "60",
    "BRIDGE_UPSTREAM__ANSWER_TIMEOUT": "120",
}
SLOTS = 16
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: b\r\n\r\n"


class Crowd:
    """Concurrent clients, each with its own connection, and an upstream that holds every answer back
    until it is released."""

    def __init__(self, bridge: Bridge, evil: Evil) -> None:
        self.bridge = bridge
        self._go_on = threading.Event()
        evil.faults["held"] = self._hold

    def _hold(self, call: UpstreamCall) -> None:
        call.send(HEAD, framed(text("Half ")))
        self._go_on.wait(60)
        call.send(framed(text("done.", "STOP")), END)

    def release(self) -> None:
        self._go_on.set()

    def hold(self) -> None:
        self._go_on.clear()

    def connected(self) -> socket.socket:
        host, port = self.bridge.address.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def request(self, raw_client: RawClient = CHAT) -> bytes:
        path, fields = raw_client.request(fresh("held"), stream=True)
        body = json.dumps(fields).encode()
        return f"POST {path} HTTP/1.1\r\nHost: b\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def waited(self) -> Counter[str]:
        """Return the outcomes of requests that waited for a slot."""
        exposed = requests.get(f"{self.bridge.address}/metrics", timeout=20).text
        found = re.findall(r'requests_without_place_total\{end="(\w+)"\} (\d+)', exposed)
        return Counter({end: int(count) for end, count in found})


def status(client: socket.socket) -> int:
    """Read the start of the response and return its status."""
    return int(client.recv(4096).split(b" ", 2)[1])


def ended_well(client: socket.socket) -> bool:
    told = b""
    while not told.endswith(b"0\r\n\r\n"):
        piece = client.recv(65536)
        if not piece:
            return False
        told += piece
    return b"data: [DONE]" in told


@contextmanager
def clients(crowd: Crowd, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(crowd.connected()) for _ in range(count)]


def is_idle(crowd: Crowd) -> bool:
    exposed = requests.get(f"{crowd.bridge.address}/metrics", timeout=20).text
    return "gemini_bridge_streams_in_flight 0.0" in exposed


def all_served(crowd: Crowd) -> bool:
    assert eventually(lambda: is_idle(crowd))
    crowd.hold()
    with clients(crowd, SLOTS) as connections:
        for client in connections:
            client.sendall(crowd.request())
        served = [status(client) for client in connections] == [200] * SLOTS
        crowd.release()
        return served and all(map(ended_well, connections))


@pytest.fixture(scope="module")
def small(evil: Evil) -> Iterator[Bridge]:
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **SMALL) as running:
        assert eventually(lambda: all_served(Crowd(running, evil)), 60), "as soon as both have started"
        yield running


@pytest.fixture
def crowd(small: Bridge, evil: Evil) -> Iterator[Crowd]:
    made = Crowd(small, evil)
    yield made
    made.release()
    assert eventually(lambda: is_idle(made)), "every place was given back"


def test_all_slots_are_used_however_connections_are_distributed(crowd: Crowd) -> None:
    before = crowd.waited()["refused"]
    assert all(all_served(crowd) for _ in range(5))
    assert crowd.waited()["refused"] == before


def test_requests_on_kept_connections_are_passed_to_a_worker_with_free_slots(crowd: Crowd) -> None:
    before = crowd.waited()["refused"]
    with clients(crowd, 3 * SLOTS) as connections:
        for client in connections:
            client.sendall(HEALTH)
            assert status(client) == 200
        for _ in range(3):
            assert eventually(lambda: is_idle(crowd))
            crowd.hold()
            for client in connections[:SLOTS]:
                client.sendall(crowd.request())
            assert [status(client) for client in connections[:SLOTS]] == [200] * SLOTS
            crowd.release()
            assert all(map(ended_well, connections[:SLOTS]))
            connections = connections[SLOTS // 2 :] + connections[: SLOTS // 2]
    assert crowd.waited()["refused"] == before


def test_when_all_workers_are_full_requests_are_refused_quickly_and_health_checks_work(crowd: Crowd) -> None:
    before = crowd.waited()
    with clients(crowd, SLOTS) as connections, clients(crowd, 20) as late:
        for client in late[:10]:  # these connections exist before the crowd, the others come later
            client.sendall(HEALTH)
            assert status(client) == 200
        for client in connections:
            client.sendall(crowd.request())
        assert [status(client) for client in connections] == [200] * SLOTS
        began = time.monotonic()
        for client in late:
            client.sendall(crowd.request(MESSAGES))
        answers = [client.recv(4096) for client in late]
        took = time.monotonic() - began
        assert all(answer.startswith(b"HTTP/1.1 529 ") for answer in answers)
        assert all(b"Retry-After: 2\r\n" in answer for answer in answers)
        assert took < 15, "a moment; they did not wait for an answer to end"
        for client in late:
            client.sendall(HEALTH)
            assert status(client) == 200, "over a connection that is open"
        for path in ("/healthz", "/readyz", "/metrics"):
            assert requests.get(f"{crowd.bridge.address}{path}", timeout=20).ok, "over a new one"
        assert crowd.waited()["refused"] - before["refused"] == 20
        crowd.release()
        assert all(map(ended_well, connections))


def test_a_request_without_a_slot_gets_the_next_free_slot(crowd: Crowd) -> None:
    before = crowd.waited()
    served = any(late_ones_are_served(crowd) for _ in range(3))  # one second can be too short
    after = crowd.waited()
    assert served
    assert after["served"] + after["handed_on"] >= before["served"] + before["handed_on"] + 2


def late_ones_are_served(crowd: Crowd) -> bool:
    assert eventually(lambda: is_idle(crowd))
    crowd.hold()
    with clients(crowd, SLOTS) as connections, clients(crowd, 2) as late:
        for client in connections:
            client.sendall(crowd.request())
        assert [status(client) for client in connections] == [200] * SLOTS
        for client in late:
            client.sendall(crowd.request())
        time.sleep(0.2)
        crowd.release()
        return [status(client) for client in late] == [200, 200] and all(map(ended_well, connections))


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_replacement_workers_take_over_slots_of_ended_workers(evil: Evil, sign: signal.Signals) -> None:
    """The free slots that a killed worker reported must not be used."""
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **SMALL) as bridge:
        crowd = Crowd(bridge, evil)
        before = set(bridge.workers())
        for worker in before:
            os.kill(worker, sign)
        assert eventually(lambda: len(bridge.workers()) == 2 and not before & set(bridge.workers()))
        assert eventually(lambda: all_served(crowd)), "as soon as both have started"
