"""Writing responses to the client's socket, for any pieces and any reading speed."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace

import pytest

from bridge.server.client_socket import ClientSocket
from bridge.server.response import LARGEST_WRITE, JoinedResponse

REQUEST = SimpleNamespace(version=(1, 1), method="POST", should_close=lambda: False)
CONFIG = SimpleNamespace(protocol="http")


def response(to: socket.socket, *headers: tuple[str, str], method: str = "POST") -> JoinedResponse:
    request = SimpleNamespace(**{**vars(REQUEST), "method": method})
    made = JoinedResponse(request, to, CONFIG)
    made.start_response("200 OK", [("Content-Type", "text/plain"), *headers])
    return made


def written(*pieces: bytes, headers: tuple[tuple[str, str], ...] = (), method: str = "POST") -> list[bytes]:
    """Return head and body."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        answer = response(ours, *headers, method=method)
        for piece in pieces:
            answer.write(piece)
        answer.close()
        ours.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: theirs.recv(65_536), b"")).split(b"\r\n\r\n", 1)


@pytest.mark.parametrize("pieces", [(b"ab", b"c"), (b"", b"ab", b"c"), (b"ab", b"", b"c")])
def test_the_head_is_sent_first_even_with_empty_body_pieces(pieces: tuple[bytes, ...]) -> None:
    head, body = written(*pieces)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nTransfer-Encoding: chunked" in head
    assert body == b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"


@pytest.mark.parametrize(("claimed", "answered"), [((1, 0), b"1.0"), ((1, 1), b"1.1"), ((1, 9), b"1.1")])
def test_the_response_has_a_supported_http_version(claimed: tuple[int, int], answered: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        made = JoinedResponse(SimpleNamespace(**{**vars(REQUEST), "version": claimed}), ours, CONFIG)
        made.start_response("200 OK", [("Content-Length", "0")])
        made.close()
        assert theirs.recv(100).startswith(b"HTTP/" + answered + b" 200 OK\r\n")


def test_a_response_with_a_content_length_is_not_chunked() -> None:
    head, body = written(b"abc", headers=(("Content-Length", "3"),))
    assert b"chunked" not in head
    assert body == b"abc"


def test_a_response_without_a_body_still_sends_its_head() -> None:
    head, body = written(b"abc", headers=(("Content-Length", "3"),), method="HEAD")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b""
    assert written()[1] == b"0\r\n\r\n"


@pytest.mark.parametrize("reads", [False, True], ids=["nothing", "little by little"])
def test_a_client_that_reads_a_large_response_too_slowly_times_out(reads: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ClientSocket({"gunicorn.socket": ours}).set_send_timeout(0.5)
        over = threading.Event()

        def drip() -> None:
            while not over.wait(0.1):
                theirs.recv(LARGEST_WRITE)

        thread = threading.Thread(target=drip)
        if reads:
            thread.start()
        began = time.monotonic()
        with pytest.raises(BlockingIOError):
            response(ours, ("Content-Length", str(1 << 24))).write(bytes(1 << 24))
        assert time.monotonic() - began < 5
        over.set()
        if reads:
            thread.join()
