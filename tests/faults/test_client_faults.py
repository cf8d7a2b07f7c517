"""Clients that leave, do not read, or send one byte at a time cost neither threads nor upstream calls."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from evil_gemini import END, HEAD, USAGE, Evil, Visit, framed, text
from gunicorn_bridge import Bridge, gunicorn_bridge
from raw_clients import ASKERS, CHAT, MESSAGES, Asker
from waiting import eventually

from tests.faults.conftest import IMPATIENT, fresh

every_asker = pytest.mark.parametrize("asker", ASKERS, ids=lambda asker: asker.name)


@pytest.fixture(scope="module")
def narrow(evil: Evil) -> Iterator[Bridge]:
    """One worker with eight places, quick to lose patience with its clients."""
    environment = {
        **IMPATIENT,
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


def request_bytes(asker: Asker, model: str, *, stream: bool) -> bytes:
    path, fields = asker.request(model, stream)
    body = json.dumps(fields).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\n"
    more = "".join(f"{name}: {value}\r\n" for name, value in asker.headers.items())
    return f"{head}{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


# --- leaving -----------------------------------------------------------------------------------------


@every_asker
@pytest.mark.parametrize(
    ("deed", "stream", "reads"),
    [
        ("stall-before-head", True, False),
        ("stall-before-head", False, False),
        ("stall-after-head", True, False),
        ("silent", True, True),
        ("silent", False, False),
    ],
)
def test_a_disconnect_ends_the_upstream_call(
    narrow: Bridge, evil: Evil, asker: Asker, deed: str, stream: bool, reads: bool
) -> None:
    model = fresh(deed)
    with connected(narrow) as client:
        client.sendall(request_bytes(asker, model, stream=stream))
        assert eventually(lambda: evil.asked[model] == 1)
        if reads:
            assert client.recv(100)
    assert eventually(lambda: evil.hung_up[model] == 1, 20), "the upstream call went on"
    assert narrow.request(model=model)["outcome"] == "client_left"


def test_a_disconnect_during_the_answer_ends_the_upstream_call_streamed_or_not(
    narrow: Bridge, evil: Evil
) -> None:
    for stream in (True, False):
        model = fresh("never-ending")
        with connected(narrow) as client:
            client.sendall(request_bytes(CHAT, model, stream=stream))
            assert eventually(lambda model=model: evil.asked[model] == 1)
        assert eventually(lambda model=model: evil.hung_up[model] == 1, 20)
        assert narrow.request(model=model)
    assert '"exception"' not in narrow.lines(), "to leave is nobody's fault"


def test_usage_before_a_disconnect_is_recorded(narrow: Bridge, evil: Evil) -> None:
    model = fresh("silent")
    with connected(narrow) as client:
        client.sendall(request_bytes(MESSAGES, model, stream=True))
        assert client.recv(100)
    line = narrow.request(model=model)
    assert line["input_tokens"] == USAGE["promptTokenCount"]
    assert line["output_tokens"] == USAGE["candidatesTokenCount"]


def test_usage_of_a_discarded_attempt_is_recorded(impatient: Bridge) -> None:
    model = fresh("malformed-once")
    assert CHAT.ask(impatient.address, model, stream=False).ended_well
    assert impatient.request(model=model)["input_tokens"] == 2 * USAGE["promptTokenCount"]


# --- not reading, not sending ------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_disconnected(narrow: Bridge, evil: Evil) -> None:
    model = fresh("flood")
    with connected(narrow) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(request_bytes(CHAT, model, stream=True))
        assert narrow.request(model=model)["outcome"] == "client_left"
    assert '"exception"' not in narrow.lines()


@pytest.mark.parametrize("dripping", [False, True], ids=["silent", "dripping"])
def test_a_client_that_does_not_send_its_body_gets_a_timeout_error(narrow: Bridge, dripping: bool) -> None:
    with connected(narrow) as client:
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


def test_clients_that_never_finish_the_head_of_a_request_hold_no_thread(narrow: Bridge) -> None:
    lazy = [connected(narrow) for _ in range(16)]
    for client in lazy:
        client.sendall(b"POST /v1/chat/completions HT")
    assert CHAT.ask(narrow.address, "gemini-x", stream=False).ended_well
    for client in lazy:
        assert client.recv(100) == b"", "it was let go"
        client.close()


# --- too many ----------------------------------------------------------------------------------------


def test_excess_requests_are_refused_at_once_and_health_checks_still_work(narrow: Bridge, evil: Evil) -> None:
    seen = threading.Event()

    def held(visit: Visit) -> None:
        visit.say(HEAD, framed(text("Half ")))
        seen.wait(20)
        visit.say(framed(text("done.", "STOP")), END)

    evil.faults["held"] = held
    models = [fresh("held") for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        running = [threads.submit(CHAT.ask, narrow.address, model, stream=True) for model in models]
        assert eventually(lambda: all(evil.asked[model] for model in models))
        refused = CHAT.ask(narrow.address, "gemini-x", stream=True)
        told = MESSAGES.ask(narrow.address, "gemini-x", stream=True)
        health = requests.get(f"{narrow.address}/healthz", timeout=20)
        seen.set()
        assert all(each.result().ended_well for each in running)
    assert (refused.status, refused.headers["Retry-After"]) == (503, "2")
    assert (told.status, json.loads(told.content)["error"]["type"]) == (529, "overloaded_error")
    assert health.ok
    free = eventually(lambda: CHAT.ask(narrow.address, "gemini-x", stream=True).ended_well)
    assert free, "the places can be had again"


def test_no_file_descriptors_are_leaked(narrow: Bridge, evil: Evil) -> None:
    before = narrow.descriptors()
    with ThreadPoolExecutor(8) as threads:
        for deed in ("reset-in-stream", "no-finish", "malformed", "overloaded-once", "drip"):
            answers = [threads.submit(CHAT.ask, narrow.address, fresh(deed), stream=True) for _ in range(8)]
            assert all(answer.result().ended_legally for answer in answers)
    assert eventually(lambda: narrow.descriptors() <= before + 10), "a few pooled connections may stay"
