"""Waiting for an answer's next bytes without getting stuck in the read.

A blocked read can neither tell the client that we are still here nor notice that the client has gone. So the
socket is polled first, after what http.client has read ahead. A socket's own timeout would not do: one that
strikes in the middle of a buffered read loses bytes.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader

from requests import Response


class Listener:
    def __init__(self, response: Response) -> None:
        connection = getattr(response.raw, "connection", None)
        self._socket: socket.socket | None = getattr(connection, "sock", None)
        self._body = getattr(response.raw, "_fp", None)
        reader = getattr(self._body, "fp", None)
        self._reader: BufferedReader | None = reader if isinstance(reader, BufferedReader) else None

    def hears(self, seconds: float) -> bool:
        """Whether a read would find something (or the end) within this time."""
        if self._socket is None or self._reader is None or self._reader.closed or self.has_more():
            return True  # nothing to poll: a mocked or an ended answer
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def has_more(self) -> bool:
        """Whether something is here already, but for the line end that http.client leaves behind a frame."""
        if self._reader is None or self._reader.closed or self._socket is None:
            return False
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        line_end = 2 if getattr(self._body, "chunk_left", None) == 0 else 0
        with self._not_blocking(), suppress(ssl.SSLWantReadError, BlockingIOError):
            return len(self._reader.peek(1)) > line_end
        return False

    @contextmanager
    def _not_blocking(self) -> Iterator[None]:
        assert self._socket is not None
        timeout = self._socket.gettimeout()
        self._socket.settimeout(0)
        try:
            yield
        finally:
            self._socket.settimeout(timeout)
