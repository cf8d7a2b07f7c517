"""The end of connections: no client blocks another client."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest
import requests
from evil_gemini import Evil
from gunicorn_bridge import Bridge, gunicorn_bridge
from raw_clients import CHAT
from waiting import eventually

from tests.faults.conftest import SHORT_TIMEOUTS, fresh

CLOSE = b"GET /healthz HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n"
NOT_FRAMED = b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n{}\r\n0\r\n\r\n"


@pytest.fixture(scope="module")
def single_worker(evil: Evil) -> Iterator[Bridge]:
    """One worker, so that blocked requests are detected."""
    environment = {**SHORT_TIMEOUTS, "BRIDGE_SERVER__WORKERS": "1"}
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **environment) as running:
        yield running


def connected(bridge: Bridge) -> socket.socket:
    host, port = bridge.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def to_the_end(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


def test_lingering_clients_do_not_block_other_clients(single_worker: Bridge) -> None:
    before = single_worker.descriptors()
    lingering = [connected(single_worker) for _ in range(60)]
    for client in lingering:
        client.sendall(CLOSE)
    assert requests.get(f"{single_worker.address}/healthz", timeout=20).ok, (
        "two seconds for each are two minutes"
    )
    assert all(b'{"status":"ok"}' in to_the_end(client) for client in lingering)
    assert eventually(lambda: single_worker.descriptors() <= before + 5), "they are closed all the same"
    for client in lingering:
        client.close()


def test_refused_clients_with_unsent_bodies_hold_no_thread(single_worker: Bridge) -> None:
    """More clients than threads: each would hold a thread for five seconds."""
    owing = [connected(single_worker) for _ in range(200)]
    for client in owing:
        client.sendall(b"POST /v1/nothing HTTP/1.1\r\nHost: b\r\nContent-Length: 1000000\r\n\r\n")
    began = time.monotonic()
    assert all(to_the_end(client).startswith(b"HTTP/1.1 404") for client in owing)
    assert time.monotonic() - began < 5
    for client in owing:
        client.close()


def test_an_answer_is_complete_although_the_client_is_still_sending(single_worker: Bridge) -> None:
    """Unread request bytes would make the kernel drop the response."""
    for _ in range(20):
        with connected(single_worker) as client:
            client.sendall(CLOSE + b"x" * 50_000)
            assert b'{"status":"ok"}' in to_the_end(client)


def test_a_malformed_body_after_a_refusal_gets_no_second_response(single_worker: Bridge) -> None:
    for path, status in ((b"/v1/chat/completions", b"400"), (b"/v1/nothing", b"404")):
        with connected(single_worker) as client:
            head = b"POST " + path + b" HTTP/1.1\r\nHost: b\r\nContent-Encoding: br\r\n"
            client.sendall(head + NOT_FRAMED)
            answer = to_the_end(client)
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("framing", [b"Content-Length: 1000000", b"Transfer-Encoding: chunked"])
def test_a_reset_during_the_request_body_counts_as_a_disconnect_and_not_a_failure(
    single_worker: Bridge, framing: bytes
) -> None:
    request_id = fresh("reset")
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: b\r\nX-Request-Id: {request_id}\r\n".encode()
    with connected(single_worker) as client:
        client.sendall(head + framing + b"\r\n\r\n" + b"F4240\r\n" + b"{" * 1000)
        assert CHAT.ask(
            single_worker.address, fresh("good"), stream=False
        ).ended_well  # the other body is being read by now
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line = single_worker.request(request_id=request_id)
    assert (line["outcome"], line["status"]) == ("client_left", 499)
    assert '"exception"' not in single_worker.lines()


@pytest.mark.parametrize("framing", [b"Content-Length: 1000000", b"Transfer-Encoding: chunked"])
def test_a_body_that_ends_early_is_a_client_error(single_worker: Bridge, framing: bytes) -> None:
    with connected(single_worker) as client:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: b\r\n"
        client.sendall(head + framing + b"\r\n\r\n" + b"F4240\r\n" + b"{" * 1000)
        client.shutdown(socket.SHUT_WR)
        answer = to_the_end(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"lacks its last chunk" in answer
    assert '"exception"' not in single_worker.lines()
