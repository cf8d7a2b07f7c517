"""Connections that have had their last answer, until their clients hang up.

To close at once would make the kernel throw the end of an answer away, if the client still sends. To wait for
each client in turn would hold up everybody else. So the writing side is closed, and the worker's poller says
when a client sends something, which is dropped, or has gone.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress

#: Seconds that a client gets.
LONGEST = 2.0
#: Of those at the same time; the oldest has to go when one more comes.
MOST = 256
#: Bytes that it may still send: one that was refused may be in the middle of a large body.
MOST_BYTES = 64 * 1024 * 1024
PIECE = 256 * 1024


class HalfClosed:
    """Used by the worker's main loop alone."""

    def __init__(self, poller: selectors.BaseSelector, gone: Callable[[], None]) -> None:
        self._poller = poller
        self._gone = gone
        self._due: dict[socket.socket, float] = {}  #: the oldest first
        self._dropped: dict[socket.socket, int] = {}
        self._buffer = bytearray(PIECE)

    def add(self, client: socket.socket) -> None:
        try:
            client.shutdown(socket.SHUT_WR)
            client.setblocking(False)
            self._poller.register(client, selectors.EVENT_READ, self._readable)
        except (OSError, ValueError, KeyError):  # it has gone
            self._close(client)
            return
        self._due[client] = time.monotonic() + LONGEST
        self._dropped[client] = 0
        if len(self._due) > MOST:
            self._forget(next(iter(self._due)))

    def close_overdue(self) -> None:
        now = time.monotonic()
        for client in [each for each, due in self._due.items() if due <= now]:
            self._forget(client)

    def _readable(self, client: socket.socket) -> None:
        if client not in self._due:  # it was closed since the poller spoke of it
            return
        try:
            count = client.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        self._dropped[client] += count
        if not count or self._dropped[client] > MOST_BYTES:
            self._forget(client)

    def _forget(self, client: socket.socket) -> None:
        del self._due[client], self._dropped[client]
        self._poller.unregister(client)
        self._close(client)

    def _close(self, client: socket.socket) -> None:
        with suppress(OSError):
            client.close()
        self._gone()
