"""Connections that have got their last answer, until their clients disconnect.

If the bridge closed the socket while the client still sends, the kernel would discard the end of the answer.
Waiting for each client in turn would block all others. So the bridge closes only the writing side; the
worker's poller then reports when a client sends data, which is discarded, or disconnects.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress

#: Seconds that a client gets to disconnect.
LONGEST = 2.0
#: Maximum number of these connections; one more closes the oldest.
MOST = 256
#: Bytes that a client may still send; the client of a rejected request may be in the middle of a large body.
MOST_BYTES = 64 * 1024 * 1024
PIECE = 256 * 1024


class HalfClosed:
    """Used by the worker's main loop alone."""

    def __init__(self, poller: selectors.BaseSelector, on_close: Callable[[], None]) -> None:
        self._poller = poller
        self._on_close = on_close
        self._due: dict[socket.socket, float] = {}  #: the oldest first
        self._dropped: dict[socket.socket, int] = {}
        self._buffer = bytearray(PIECE)

    def add(self, client: socket.socket) -> None:
        try:
            client.shutdown(socket.SHUT_WR)
            client.setblocking(False)
            self._poller.register(client, selectors.EVENT_READ, self._readable)
        except (OSError, ValueError, KeyError):  # the client has disconnected
            self._close(client)
            return
        self._due[client] = time.monotonic() + LONGEST
        self._dropped[client] = 0
        if len(self._due) > MOST:
            self._drop(next(iter(self._due)))

    def close_overdue(self) -> None:
        now = time.monotonic()
        for client in [each for each, due in self._due.items() if due <= now]:
            self._drop(client)

    def _readable(self, client: socket.socket) -> None:
        if client not in self._due:  # it was closed after the poller returned this event
            return
        try:
            count = client.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        self._dropped[client] += count
        if not count or self._dropped[client] > MOST_BYTES:
            self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        del self._due[client], self._dropped[client]
        self._poller.unregister(client)
        self._close(client)

    def _close(self, client: socket.socket) -> None:
        with suppress(OSError):
            client.close()
        self._on_close()
