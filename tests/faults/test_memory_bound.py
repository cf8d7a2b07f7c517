"""Large bodies and large stored conversations: a worker refuses them before reading if it lacks the memory,
and releases a request's memory however the request ends."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from evil_gemini import END, HEAD, Evil, UpstreamCall, framed, text
from gunicorn_bridge import Bridge, gunicorn_bridge
from waiting import eventually

from tests.faults.conftest import SHORT_TIMEOUTS, fresh

MB = 1024 * 1024
#: One worker, with memory for 12 MB of bodies, each of 8 MB at most.
ENVIRONMENT = {
    **SHORT_TIMEOUTS,
    "BRIDGE_SERVER__WORKERS": "1",
    "BRIDGE_SERVER__MAX_BODY_MB": "8",
    "BRIDGE_SERVER__MEMORY_MB": "48",
    "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "60",
    "BRIDGE_UPSTREAM__READ_TIMEOUT": "60",
    "BRIDGE_UPSTREAM__ANSWER_TIMEOUT": "120",
}


@pytest.fixture(scope="module")
def bounded(evil: Evil) -> Iterator[Bridge]:
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **ENVIRONMENT) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_held(bounded: Bridge) -> Iterator[None]:
    yield
    assert eventually(lambda: booked(bounded) == 0), "released, and not twice"


def metric(bridge: Bridge, name: str) -> float:
    exposed = requests.get(f"{bridge.address}/metrics", timeout=20).text
    return float(re.findall(rf"^gemini_bridge_{name} (\S+)$", exposed, re.MULTILINE)[0])


def booked(bridge: Bridge) -> float:
    return metric(bridge, "memory_booked_bytes")


class Upstream:
    """An upstream that holds every answer back until it is released."""

    def __init__(self, evil: Evil) -> None:
        self._evil = evil
        self.go_on = threading.Event()
        evil.faults["held"] = self._hold
        self.model = fresh("held")

    def _hold(self, call: UpstreamCall) -> None:
        call.send(HEAD, framed(text("Half ")))
        self.go_on.wait(60)
        call.send(framed(text("done.", "STOP")), END)

    def asked(self) -> int:
        return self._evil.asked[self.model]


@pytest.fixture
def upstream(evil: Evil) -> Iterator[Upstream]:
    made = Upstream(evil)
    yield made
    made.go_on.set()


def ask(bridge: Bridge, model: str, size: int, *, chunked: bool = False, **more: Any) -> requests.Response:
    body = json.dumps({"model": model, "input": "x" * size, "store": False, **more}).encode()
    data = (body[at : at + MB] for at in range(0, len(body), MB)) if chunked else body
    headers = {"Content-Type": "application/json"}
    return requests.post(f"{bridge.address}/v1/responses", data=data, headers=headers, timeout=90)


@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "in chunks"])
def test_large_bodies_are_admitted_by_their_bytes(bounded: Bridge, upstream: Upstream, chunked: bool) -> None:
    refused_before = metric(bounded, "memory_refused_total")
    with ThreadPoolExecutor() as threads:
        first = threads.submit(ask, bounded, upstream.model, 7 * MB, chunked=chunked)
        assert eventually(lambda: upstream.asked() == 1)
        assert booked(bounded) >= 4 * 7 * MB
        refused = ask(bounded, upstream.model, 7 * MB, chunked=chunked)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert "large requests" in refused.json()["error"]["message"]
        assert ask(bounded, fresh("good"), 1000).status_code == 200, "small ones are not its business"
        assert ask(bounded, fresh("good"), 3 * MB, chunked=chunked).status_code == 200, "there is room for it"
        upstream.go_on.set()
        assert first.result().status_code == 200
    assert metric(bounded, "memory_refused_total") == refused_before + 1
    assert ask(bounded, fresh("good"), 7 * MB, chunked=chunked).status_code == 200


def kept(bridge: Bridge, size: int, previous: str | None = None) -> str:
    answer = ask(bridge, fresh("good"), size, store=True, previous_response_id=previous)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def test_small_requests_that_resume_a_large_conversation_reserve_its_bytes(
    bounded: Bridge, upstream: Upstream
) -> None:
    conversation = kept(bounded, 4 * MB, kept(bounded, 4 * MB))
    with ThreadPoolExecutor() as threads:
        first = threads.submit(ask, bounded, upstream.model, 10, previous_response_id=conversation)
        assert eventually(lambda: upstream.asked() == 1)
        refused = ask(bounded, upstream.model, 10, previous_response_id=conversation)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        shown = requests.get(f"{bounded.address}/v1/responses/{conversation}/input_items", timeout=60)
        assert shown.status_code == 503, "it would be loaded, too"
        upstream.go_on.set()
        assert first.result().status_code == 200
    shown = requests.get(f"{bounded.address}/v1/responses/{conversation}/input_items", timeout=60)
    assert shown.status_code == 200


def test_a_conversation_larger_than_the_worker_is_refused_permanently(bounded: Bridge) -> None:
    conversation = kept(bounded, 5 * MB, kept(bounded, 5 * MB))
    refused = ask(bounded, fresh("good"), 3 * MB, previous_response_id=conversation)
    assert refused.status_code == 413
    assert "12 MB together" in refused.json()["error"]["message"]


def test_background_work_holds_its_bytes_until_it_is_done(bounded: Bridge, upstream: Upstream) -> None:
    pending = ask(bounded, upstream.model, 7 * MB, store=True, background=True)
    assert (pending.status_code, pending.json()["status"]) == (200, "queued")
    assert eventually(lambda: upstream.asked() == 1)
    assert booked(bounded) >= 4 * 7 * MB
    assert ask(bounded, fresh("good"), 7 * MB).status_code == 503
    upstream.go_on.set()
    assert eventually(lambda: booked(bounded) == 0)


def test_a_disconnect_releases_its_memory(bounded: Bridge, upstream: Upstream) -> None:
    """Disconnect while sending, while waiting, and while receiving."""
    host, port = bounded.address.removeprefix("http://").split(":")
    for stream, sent in ((False, 3 * MB), (False, 7 * MB), (True, 7 * MB)):
        padding = "x" * (7 * MB - 500)
        fields = {"model": upstream.model, "stream": stream, "store": False, "input": padding}
        body = json.dumps(fields).encode()
        head = f"POST /v1/responses HTTP/1.1\r\nHost: b\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        asked = upstream.asked()
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(head + body[:sent])
            assert eventually(lambda: booked(bounded) > 0)
            if sent > len(body):
                assert eventually(lambda asked=asked: upstream.asked() == asked + 1)
            if stream:
                assert client.recv(100)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert eventually(lambda: booked(bounded) == 0)


@pytest.mark.parametrize("wrong", ["not JSON", "not an object", "not a field"])
def test_a_refused_body_releases_its_memory(bounded: Bridge, wrong: str) -> None:
    large = b"x" * (2 * MB)
    body = {
        "not JSON": b"{" + large,
        "not an object": b'"' + large + b'"',
        "not a field": b'{"model": 5, "input": "' + large + b'"}',
    }[wrong]
    answer = requests.post(f"{bounded.address}/v1/responses", data=body, timeout=60)
    assert answer.status_code == 400
