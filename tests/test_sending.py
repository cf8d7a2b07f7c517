"""Pieces reach the client whole and in order, whether the kernel takes them at once or not."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator

import pytest
from certificates import make_certificate, needs_openssl

from bridge.http.client import Client
from bridge.http.sending import send_all

#: More than the kernel holds between two sockets.
LARGE = bytes(range(256)) * 16_384

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def all_of(theirs: socket.socket) -> bytes:
    return b"".join(iter(lambda: theirs.recv(65_536), b""))


@pytest.mark.parametrize("piece", [b"", b"a", b"a\0b", "ü\n".encode()])
def test_a_small_piece_is_sent_as_it_is(pair: Pair, piece: bytes) -> None:
    ours, theirs = pair
    send_all(ours, piece)
    send_all(ours, b".")
    ours.shutdown(socket.SHUT_WR)
    assert all_of(theirs) == piece + b"."


def test_what_does_not_fit_is_sent_when_there_is_room(pair: Pair) -> None:
    ours, theirs = pair
    sender = threading.Thread(target=lambda: (send_all(ours, LARGE), ours.shutdown(socket.SHUT_WR)))
    sender.start()
    assert all_of(theirs) == LARGE
    sender.join()


def test_others_go_on_while_a_client_takes_nothing(pair: Pair) -> None:
    """The lock is held only as long as the kernel takes something: this test would hang otherwise."""
    ours, theirs = pair
    sender = threading.Thread(target=send_all, args=(ours, LARGE))
    sender.start()
    sender.join(0.2)
    assert sender.is_alive()
    left = len(LARGE)
    while left:
        left -= len(theirs.recv(65_536))
    sender.join()


def test_a_client_that_takes_nothing_is_given_up(pair: Pair) -> None:
    ours, _ = pair
    Client({"gunicorn.socket": ours}).must_take_within(0.1)
    with pytest.raises(BlockingIOError):
        send_all(ours, LARGE)


def test_a_client_that_has_gone_is_an_error(pair: Pair) -> None:
    ours, theirs = pair
    theirs.close()
    with pytest.raises(BrokenPipeError):
        send_all(ours, b"a")


def test_a_closed_socket_is_an_error(pair: Pair) -> None:
    ours, _ = pair
    ours.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        send_all(ours, b"a")


@needs_openssl
def test_with_tls_nothing_goes_past_it(pair: Pair, tmp_path) -> None:
    made = make_certificate(tmp_path, "localhost")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.certificate, made.key)
    client = ssl.create_default_context(cafile=str(made.certificate))
    got: list[bytes] = []

    def read() -> None:
        with client.wrap_socket(pair[1], server_hostname="localhost") as theirs:
            got.append(theirs.recv(100))

    reader = threading.Thread(target=read)
    reader.start()
    with server.wrap_socket(pair[0], server_side=True) as ours:
        send_all(ours, b"secret")
        reader.join()
    assert got == [b"secret"]
