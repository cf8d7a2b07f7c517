"""A connection that has just come is waited for, and costs no file descriptor but its own."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest
from descriptors import no_more_descriptors

from bridge.http.worker import Connection


@pytest.fixture
def come():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Connection(SimpleNamespace(), ours, None, None), theirs


def test_silence_is_waited_for_and_told(come) -> None:
    connection, _ = come
    assert not connection.wait_for_data(0.01)


def test_what_has_come_is_not_waited_for_again(come) -> None:
    connection, theirs = come
    theirs.send(b"G")
    assert connection.wait_for_data(30)
    connection.sock.recv(1)
    assert connection.wait_for_data(30)


def test_one_that_has_gone_is_not_waited_for(come) -> None:
    connection, theirs = come
    theirs.close()
    assert connection.wait_for_data(30)


def test_no_descriptor_is_needed(come) -> None:
    connection, theirs = come
    theirs.send(b"G")
    with no_more_descriptors():
        assert connection.wait_for_data(30)
