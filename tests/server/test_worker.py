"""What a worker does with connections before a thread reads them, and after it."""

from __future__ import annotations

import selectors
import socket
from types import SimpleNamespace

import pytest
from descriptors import no_more_descriptors

from bridge.server import closing
from bridge.server.closing import HalfClosed
from bridge.server.connection import Connection
from bridge.server.siblings import OtherWorkers


@pytest.fixture
def come():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Connection(SimpleNamespace(), ours, None, None), theirs


# --- how a request begins ----------------------------------------------------------------------------


def test_nothing_has_come_yet(come) -> None:
    connection, _ = come
    assert connection.peek() is None
    assert not connection.wants_slot()


@pytest.mark.parametrize(
    ("sent", "wants"), [(b"POST /v1/x", True), (b"PO", True), (b"GET /healthz", False), (b"POSTS", False)]
)
def test_what_has_come_is_left_where_it_is(come, sent: bytes, wants: bool) -> None:
    connection, theirs = come
    theirs.send(sent)
    with no_more_descriptors():
        assert connection.peek() == sent[:5]
        assert connection.wants_slot() is wants
    assert connection.sock.recv(100) == sent


def test_one_that_has_gone_wants_nothing(come) -> None:
    connection, theirs = come
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


def test_a_client_is_told_the_end_at_once_and_closed_when_it_hangs_up(half_closed, come) -> None:
    ending, poller, gone = half_closed
    connection, theirs = come
    ending.add(connection.sock)
    assert theirs.recv(10) == b""
    theirs.send(b"still sending")
    turn(poller)
    assert not gone
    theirs.close()
    turn(poller)
    assert (len(gone), connection.sock.fileno()) == (1, -1)


def test_one_that_does_not_hang_up_is_closed_in_the_end(half_closed, come, monkeypatch) -> None:
    ending, _, gone = half_closed
    connection, _ = come
    monkeypatch.setattr(closing, "LONGEST", 0.0)
    ending.add(connection.sock)
    ending.close_overdue()
    assert (len(gone), connection.sock.fileno()) == (1, -1)


def test_one_that_sends_without_end_is_closed(half_closed, come, monkeypatch) -> None:
    ending, poller, gone = half_closed
    connection, theirs = come
    monkeypatch.setattr(closing, "MOST_BYTES", 10)
    ending.add(connection.sock)
    theirs.send(b"x" * 11)
    turn(poller)
    assert len(gone) == 1


def test_of_too_many_the_oldest_is_closed_although_the_poller_still_speaks_of_it(
    half_closed, come, monkeypatch
) -> None:
    ending, poller, gone = half_closed
    connection, theirs = come
    monkeypatch.setattr(closing, "MOST", 1)
    ending.add(connection.sock)
    theirs.send(b"x")
    ((key, _),) = poller.select(30)
    other, another = socket.socketpair()
    with other, another:
        ending.add(other)
        key.data(key.fileobj)
        assert (len(gone), connection.sock.fileno()) == (1, -1)


def test_one_that_has_gone_already_is_closed_and_counted_once(half_closed, come) -> None:
    ending, _, gone = half_closed
    connection, _ = come
    connection.sock.close()
    ending.add(connection.sock)
    assert len(gone) == 1


# --- siblings ----------------------------------------------------------------------------------------


@pytest.fixture
def together():
    made = OtherWorkers()
    with made._sender, made.queue:
        yield made


def test_siblings_know_who_has_room(together) -> None:
    first, second = together.register(), together.register()
    assert not together.have_free_slot()
    together.report(first, True)
    together.report(second, False)
    assert together.have_free_slot()
    together.unregister(first)
    assert not together.have_free_slot()
    assert together.register() == first, "the next takes the place of one that ended"


def test_a_connection_is_left_to_whoever_takes_it_with_all_that_was_sent(together, come) -> None:
    connection, theirs = come
    theirs.send(b"POST /")
    assert together.give(connection.sock, 2.5)
    connection.sock.close()
    taken, waits_until = together.take()
    with taken:
        assert (taken.recv(100), waits_until) == (b"POST /", 2.5)
    with pytest.raises(BlockingIOError):
        together.take()


def test_a_queue_that_is_full_is_said_so(together, come) -> None:
    connection, _ = come
    given = 0
    while together.give(connection.sock, 0):
        given += 1
    assert given > 1
    for _ in range(given):
        together.take()[0].close()


def test_without_room_for_its_descriptor_a_connection_stays_in_the_queue(together, come) -> None:
    connection, _ = come
    assert together.give(connection.sock, 0)
    with no_more_descriptors(), pytest.raises(OSError, match="Too many open files"):
        together.take()
    together.take()[0].close()
