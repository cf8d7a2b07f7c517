"""Clients that disconnect, do not read, or send slowly hold neither threads nor upstream calls."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from evil_gemini import END, HEAD, USAGE, Evil, UpstreamCall, framed, text
from gunicorn_bridge import Bridge, gunicorn_bridge
from raw_clients import CHAT, MESSAGES, RAW_CLIENTS, RawClient
from waiting import eventually

from tests.faults.conftest import SHORT_TIMEOUTS, fresh

every_raw_client = pytest.mark.parametrize("raw_client", RAW_CLIENTS, ids=lambda raw_client: raw_client.name)


@pytest.fixture(scope="module")
def small_bridge(evil: Evil) -> Iterator[Bridge]:
    """One worker with eight slots and short client timeouts."""
    environment = {
        **SHORT_TIMEOUTS,
        "BRIDGE_SERVER__WORKERS": "1",
        "BRIDGE_SERVER__THREADS": "16",
        "BRIDGE_SERVER__HEAD_TIMEOUT": "1.5",
        "BRIDGE_SERVER__BODY_TIMEOUT": "1.5",
        "BRIDGE_SERVER__SEND_TIMEOUT": "1.5",
        "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "30",
        "BRIDGE_UPSTREAM__READ_TIMEOUT": "30",
        "BRIDGE_UPSTREAM__ANSWER_TIMEOUT": "60",
    }
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **environment) as running:
        yield running


def connected(bridge: Bridge) -> socket.socket:
    host, port = bridge.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def request_bytes(raw_client: RawClient, model: str, *, stream: bool) -> bytes:
    path, fields = raw_client.request(model, stream)
    body = json.dumps(fields).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\n"
    more = "".join(f"{name}: {value}\r\n" for name, value in raw_client.headers.items())
    return f"{head}{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


# --- disconnects -------------------------------------------------------------------------------------


@every_raw_client
@pytest.mark.parametrize(
    ("behaviour", "stream", "reads"),
    [
        ("stall-before-head", True, False),
        ("stall-before-head", False, False),
        ("stall-after-head", True, False),
        ("silent", True, True),
        ("silent", False, False),
    ],
)
def test_a_disconnect_ends_the_upstream_call(
    small_bridge: Bridge, evil: Evil, raw_client: RawClient, behaviour: str, stream: bool, reads: bool
) -> None:
    model = fresh(behaviour)
    with connected(small_bridge) as client:
        client.sendall(request_bytes(raw_client, model, stream=stream))
        assert eventually(lambda: evil.asked[model] == 1)
        if reads:
            assert client.recv(100)
    assert eventually(lambda: evil.disconnects[model] == 1, 20), "the upstream call went on"
    assert small_bridge.request(model=model)["outcome"] == "client_left"


def test_a_disconnect_during_the_answer_ends_the_upstream_call_streamed_or_not(
    small_bridge: Bridge, evil: Evil
) -> None:
    for stream in (True, False):
        model = fresh("never-ending")
        with connected(small_bridge) as client:
            client.sendall(request_bytes(CHAT, model, stream=stream))
            assert eventually(lambda model=model: evil.asked[model] == 1)
        assert eventually(lambda model=model: evil.disconnects[model] == 1, 20)
        assert small_bridge.request(model=model)
    assert '"exception"' not in small_bridge.lines(), "to leave is nobody's fault"


def test_usage_before_a_disconnect_is_recorded(small_bridge: Bridge, evil: Evil) -> None:
    model = fresh("silent")
    with connected(small_bridge) as client:
        client.sendall(request_bytes(MESSAGES, model, stream=True))
        assert client.recv(100)
    line = small_bridge.request(model=model)
    assert line["input_tokens"] == USAGE["promptTokenCount"]
    assert line["output_tokens"] == USAGE["candidatesTokenCount"]


def test_usage_of_a_discarded_attempt_is_recorded(short_timeouts: Bridge) -> None:
    model = fresh("malformed-once")
    assert CHAT.ask(short_timeouts.address, model, stream=False).ended_well
    assert short_timeouts.request(model=model)["input_tokens"] == 2 * USAGE["promptTokenCount"]


# --- slow clients ------------------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_disconnected(small_bridge: Bridge, evil: Evil) -> None:
    model = fresh("flood")
    with connected(small_bridge) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(request_bytes(CHAT, model, stream=True))
        assert small_bridge.request(model=model)["outcome"] == "client_left"
    assert '"exception"' not in small_bridge.lines()


@pytest.mark.parametrize("dripping", [False, True], ids=["silent", "dripping"])
def test_a_client_that_does_not_send_its_body_gets_a_timeout_error(
    small_bridge: Bridge, dripping: bool
) -> None:
    with connected(small_bridge) as client:
        whole = request_bytes(CHAT, "gemini-x", stream=False)
        client.sendall(whole[:-30])
        client.settimeout(0.5)
        answer = b""
        for at in range(30):
            try:
                answer = client.recv(4096)
                break
            except TimeoutError:
                if dripping:
                    client.sendall(whole[-30 + at : -29 + at])
        client.settimeout(20)
        answer += b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive within 1.5 seconds" in answer


def test_clients_that_never_finish_the_head_of_a_request_hold_no_thread(small_bridge: Bridge) -> None:
    lazy = [connected(small_bridge) for _ in range(16)]
    for client in lazy:
        client.sendall(b"POST /v1/chat/completions HT")
    assert CHAT.ask(small_bridge.address, "gemini-x", stream=False).ended_well
    for client in lazy:
        assert client.recv(100) == b"", "it was let go"
        client.close()


# --- excess requests ---------------------------------------------------------------------------------


def test_excess_requests_are_refused_at_once_and_health_checks_still_work(
    small_bridge: Bridge, evil: Evil
) -> None:
    seen = threading.Event()

    def held(call: UpstreamCall) -> None:
        call.send(HEAD, framed(text("Half ")))
        seen.wait(20)
        call.send(framed(text("done.", "STOP")), END)

    evil.faults["held"] = held
    models = [fresh("held") for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        running = [threads.submit(CHAT.ask, small_bridge.address, model, stream=True) for model in models]
        assert eventually(lambda: all(evil.asked[model] for model in models))
        refused = CHAT.ask(small_bridge.address, "gemini-x", stream=True)
        told = MESSAGES.ask(small_bridge.address, "gemini-x", stream=True)
        health = requests.get(f"{small_bridge.address}/healthz", timeout=20)
        seen.set()
        assert all(each.result().ended_well for each in running)
    assert (refused.status, refused.headers["Retry-After"]) == (503, "2")
    assert (told.status, json.loads(told.content)["error"]["type"]) == (529, "overloaded_error")
    assert health.ok
    free = eventually(lambda: CHAT.ask(small_bridge.address, "gemini-x", stream=True).ended_well)
    assert free, "the places can be had again"


def test_no_file_descriptors_are_leaked(small_bridge: Bridge, evil: Evil) -> None:
    before = small_bridge.descriptors()
    with ThreadPoolExecutor(8) as threads:
        for behaviour in ("reset-in-stream", "no-finish", "malformed", "overloaded-once", "drip"):
            answers = [
                threads.submit(CHAT.ask, small_bridge.address, fresh(behaviour), stream=True)
                for _ in range(8)
            ]
            assert all(answer.result().ended_legally for answer in answers)
    assert eventually(lambda: small_bridge.descriptors() <= before + 10), "a few pooled connections may stay"
