"""How a worker handles connections before and after a thread serves them."""

from __future__ import annotations

import selectors
import socket
from types import SimpleNamespace

import pytest
from file_descriptor_limit import no_free_file_descriptors

from bridge.server import closing
from bridge.server.closing import HalfClosed
from bridge.server.connection import Connection
from bridge.server.siblings import OtherWorkers


@pytest.fixture
def accepted():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Connection(SimpleNamespace(), ours, None, None), theirs


# --- the start of a request --------------------------------------------------------------------------


def test_a_connection_without_data_wants_no_slot(accepted) -> None:
    connection, _ = accepted
    assert connection.peek() is None
    assert not connection.wants_slot()


@pytest.mark.parametrize(
    ("sent", "wants"), [(b"POST /v1/x", True), (b"PO", True), (b"GET /healthz", False), (b"POSTS", False)]
)
def test_peeking_at_the_first_bytes_does_not_consume_them(accepted, sent: bytes, wants: bool) -> None:
    connection, theirs = accepted
    theirs.send(sent)
    with no_free_file_descriptors():
        assert connection.peek() == sent[:5]
        assert connection.wants_slot() is wants
    assert connection.sock.recv(100) == sent


def test_a_closed_connection_wants_no_slot(accepted) -> None:
    connection, theirs = accepted
    theirs.close()
    assert connection.peek() == b""
    assert not connection.wants_slot()


# --- the end of a connection -------------------------------------------------------------------------


@pytest.fixture
def half_closed():
    gone: list[None] = []
    with selectors.DefaultSelector() as poller:
        yield HalfClosed(poller, lambda: gone.append(None)), poller, gone


def turn(poller: selectors.BaseSelector) -> None:
    for key, _ in poller.select(30):
        key.data(key.fileobj)


def test_a_lingering_connection_is_shut_down_at_once_and_closed_when_the_client_closes(
    half_closed, accepted
) -> None:
    ending, poller, gone = half_closed
    connection, theirs = accepted
    ending.add(connection.sock)
    assert theirs.recv(10) == b""
    theirs.send(b"still sending")
    turn(poller)
    assert not gone
    theirs.close()
    turn(poller)
    assert (len(gone), connection.sock.fileno()) == (1, -1)


def test_a_lingering_connection_is_closed_after_a_timeout(half_closed, accepted, monkeypatch) -> None:
    ending, _, gone = half_closed
    connection, _ = accepted
    monkeypatch.setattr(closing, "LONGEST", 0.0)
    ending.add(connection.sock)
    ending.close_overdue()
    assert (len(gone), connection.sock.fileno()) == (1, -1)


def test_a_lingering_connection_that_keeps_sending_is_closed(half_closed, accepted, monkeypatch) -> None:
    ending, poller, gone = half_closed
    connection, theirs = accepted
    monkeypatch.setattr(closing, "MOST_BYTES", 10)
    ending.add(connection.sock)
    theirs.send(b"x" * 11)
    turn(poller)
    assert len(gone) == 1


def test_above_the_limit_the_oldest_lingering_connection_is_closed(
    half_closed, accepted, monkeypatch
) -> None:
    ending, poller, gone = half_closed
    connection, theirs = accepted
    monkeypatch.setattr(closing, "MOST", 1)
    ending.add(connection.sock)
    theirs.send(b"x")
    ((key, _),) = poller.select(30)
    other, another = socket.socketpair()
    with other, another:
        ending.add(other)
        key.data(key.fileobj)
        assert (len(gone), connection.sock.fileno()) == (1, -1)


def test_a_connection_that_was_already_closed_is_counted_once(half_closed, accepted) -> None:
    ending, _, gone = half_closed
    connection, _ = accepted
    connection.sock.close()
    ending.add(connection.sock)
    assert len(gone) == 1


# --- siblings ----------------------------------------------------------------------------------------


@pytest.fixture
def together():
    made = OtherWorkers()
    with made._sender, made.queue:
        yield made


def test_workers_know_which_siblings_have_free_slots(together) -> None:
    first, second = together.register(), together.register()
    assert not together.have_free_slot()
    together.report(first, True, 0)
    together.report(second, False, 3)
    assert together.have_free_slot()
    together.unregister(first)
    assert not together.have_free_slot()
    assert together.register() == first, "the next takes the place of one that ended"


def test_a_connection_is_passed_to_a_sibling_with_its_unread_data(together, accepted) -> None:
    connection, theirs = accepted
    theirs.send(b"POST /")
    assert together.give(connection.sock, 2.5)
    connection.sock.close()
    taken, waits_until = together.take()
    with taken:
        assert (taken.recv(100), waits_until) == (b"POST /", 2.5)
    with pytest.raises(BlockingIOError):
        together.take()


def test_a_full_handover_queue_is_reported(together, accepted) -> None:
    connection, _ = accepted
    given = 0
    while together.give(connection.sock, 0):
        given += 1
    assert given > 1
    for _ in range(given):
        together.take()[0].close()


def test_without_a_free_file_descriptor_a_connection_stays_in_the_queue(together, accepted) -> None:
    connection, _ = accepted
    assert together.give(connection.sock, 0)
    with no_free_file_descriptors(), pytest.raises(OSError, match="Too many open files"):
        together.take()
    together.take()[0].close()
