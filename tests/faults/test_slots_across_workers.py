"""More requests than one worker has places for: none is refused while another worker has one."""

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
from evil_gemini import END, HEAD, Evil, Visit, framed, text
from gunicorn_bridge import Bridge, gunicorn_bridge
from raw_clients import CHAT, MESSAGES, Asker
from waiting import eventually

from tests.faults.conftest import IMPATIENT, fresh

#: Two workers of eight places.
SMALL = {
    **IMPATIENT,
    "BRIDGE_SERVER__WORKERS": "2",
    "BRIDGE_SERVER__THREADS": "16",
    "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "60",
    "BRIDGE_UPSTREAM__READ_TIMEOUT": "60",
    "BRIDGE_UPSTREAM__ANSWER_TIMEOUT": "120",
}
SLOTS = 16
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: b\r\n\r\n"


class Crowd:
    """Clients that ask at the same time, each over a connection of its own, and an upstream that holds every
    answer back until it is told to go on."""

    def __init__(self, bridge: Bridge, evil: Evil) -> None:
        self.bridge = bridge
        self._go_on = threading.Event()
        evil.faults["held"] = self._hold

    def _hold(self, visit: Visit) -> None:
        visit.say(HEAD, framed(text("Half ")))
        self._go_on.wait(60)
        visit.say(framed(text("done.", "STOP")), END)

    def release(self) -> None:
        self._go_on.set()

    def hold(self) -> None:
        self._go_on.clear()

    def connected(self) -> socket.socket:
        host, port = self.bridge.address.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def request(self, asker: Asker = CHAT) -> bytes:
        path, fields = asker.request(fresh("held"), stream=True)
        body = json.dumps(fields).encode()
        return f"POST {path} HTTP/1.1\r\nHost: b\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def waited(self) -> Counter[str]:
        """How requests without a place fared so far."""
        exposed = requests.get(f"{self.bridge.address}/metrics", timeout=20).text
        found = re.findall(r'requests_without_place_total\{end="(\w+)"\} (\d+)', exposed)
        return Counter({end: int(count) for end, count in found})


def status(client: socket.socket) -> int:
    """Of its answer, whose beginning is read."""
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


def nothing_runs(crowd: Crowd) -> bool:
    exposed = requests.get(f"{crowd.bridge.address}/metrics", timeout=20).text
    return "gemini_bridge_streams_in_flight 0.0" in exposed


def all_served(crowd: Crowd) -> bool:
    assert eventually(lambda: nothing_runs(crowd))
    crowd.hold()
    with clients(crowd, SLOTS) as askers:
        for client in askers:
            client.sendall(crowd.request())
        served = [status(client) for client in askers] == [200] * SLOTS
        crowd.release()
        return served and all(map(ended_well, askers))


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
    assert eventually(lambda: nothing_runs(made)), "every place was given back"


def test_all_slots_are_used_however_connections_are_distributed(crowd: Crowd) -> None:
    before = crowd.waited()["refused"]
    assert all(all_served(crowd) for _ in range(5))
    assert crowd.waited()["refused"] == before


def test_requests_on_kept_connections_are_passed_to_a_worker_with_free_slots(crowd: Crowd) -> None:
    before = crowd.waited()["refused"]
    with clients(crowd, 3 * SLOTS) as askers:
        for client in askers:
            client.sendall(HEALTH)
            assert status(client) == 200
        for _ in range(3):
            assert eventually(lambda: nothing_runs(crowd))
            crowd.hold()
            for client in askers[:SLOTS]:
                client.sendall(crowd.request())
            assert [status(client) for client in askers[:SLOTS]] == [200] * SLOTS
            crowd.release()
            assert all(map(ended_well, askers[:SLOTS]))
            askers = askers[SLOTS // 2 :] + askers[: SLOTS // 2]
    assert crowd.waited()["refused"] == before


def test_when_all_workers_are_full_requests_are_refused_quickly_and_health_checks_work(crowd: Crowd) -> None:
    before = crowd.waited()
    with clients(crowd, SLOTS) as askers, clients(crowd, 20) as late:
        for client in late[:10]:  # these are open before the crowd comes, and the others come later
            client.sendall(HEALTH)
            assert status(client) == 200
        for client in askers:
            client.sendall(crowd.request())
        assert [status(client) for client in askers] == [200] * SLOTS
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
        assert all(map(ended_well, askers))


def test_a_request_without_a_slot_gets_the_next_free_slot(crowd: Crowd) -> None:
    before = crowd.waited()
    served = any(late_ones_are_served(crowd) for _ in range(3))  # a second is short on a busy machine
    after = crowd.waited()
    assert served
    assert after["served"] + after["handed_on"] >= before["served"] + before["handed_on"] + 2


def late_ones_are_served(crowd: Crowd) -> bool:
    assert eventually(lambda: nothing_runs(crowd))
    crowd.hold()
    with clients(crowd, SLOTS) as askers, clients(crowd, 2) as late:
        for client in askers:
            client.sendall(crowd.request())
        assert [status(client) for client in askers] == [200] * SLOTS
        for client in late:
            client.sendall(crowd.request())
        time.sleep(0.2)
        crowd.release()
        return [status(client) for client in late] == [200, 200] and all(map(ended_well, askers))


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_replacement_workers_take_over_slots_of_ended_workers(evil: Evil, sign: signal.Signals) -> None:
    """What one said of its room before it was killed must not be believed."""
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **SMALL) as bridge:
        crowd = Crowd(bridge, evil)
        before = set(bridge.workers())
        for worker in before:
            os.kill(worker, sign)
        assert eventually(lambda: len(bridge.workers()) == 2 and not before & set(bridge.workers()))
        assert eventually(lambda: all_served(crowd)), "as soon as both have started"
