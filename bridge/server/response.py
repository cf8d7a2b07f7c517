"""gunicorn's writer of HTTP/1 responses; it sends the head together with the first bytes of the body.

A client must accept data in time. The kernel enforces this for each send (`bridge/server/client_socket.py`),
but restarts the timeout whenever the client accepts a few bytes; so a large piece has a limit for all of it.
"""

from __future__ import annotations

import time
from functools import lru_cache

from gunicorn.http.wsgi import Response
from gunicorn.util import http_date

from bridge.server.client_socket import send_timeout

LARGEST_WRITE = 65_536
NEWEST_VERSION = (1, 1)  #: the highest HTTP version in a response, whatever version the client claims
FRAME = b"%X\r\n%b\r\n"  #: a chunk of a chunked body: its size and its data


class JoinedResponse(Response):
    """Saves one send() for each response, and one wake-up in the client."""

    headers_sent: bool
    _head = b""
    _streaming = False  #: the head has been sent, and the body is chunked

    def default_headers(self) -> list[str]:
        version = "HTTP/{}.{}".format(*min(self.req.version, NEWEST_VERSION))
        connection = "close" if self.should_close() else "keep-alive"
        lines = [
            f"{version} {self.status}\r\n",
            f"Server: {self.version}\r\n",
            f"Date: {_date(int(time.time()))}\r\n",
            f"Connection: {connection}\r\n",
        ]
        return [*lines, "Transfer-Encoding: chunked\r\n"] if self.chunked else lines

    def send_headers(self) -> None:
        if not self.headers_sent:
            lines = [*self.default_headers(), *(f"{name}: {value}\r\n" for name, value in self.headers)]
            self._head = "".join((*lines, "\r\n")).encode("latin-1")
            self.headers_sent = True

    def write(self, data: bytes) -> None:
        if self._streaming and 0 < len(data) < LARGEST_WRITE:
            self.sock.sendall(FRAME % (len(data), data))
        else:
            super().write(data)

    def _emit_body(self, data: bytes) -> None:
        framed = FRAME % (len(data), data) if self.chunked else data
        self._send(framed)

    def close(self) -> None:
        self.send_headers()
        self._send(b"0\r\n\r\n" if self.chunked else b"")

    def _send(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            data = head + data
            self._streaming = self.chunked
        if len(data) > LARGEST_WRITE:
            self._send_in_pieces(memoryview(data))
        elif data:
            self.sock.sendall(data)

    def _send_in_pieces(self, data: memoryview) -> None:
        limit = send_timeout(self.sock)
        began = time.monotonic()
        while data:
            if time.monotonic() - began > limit:
                raise BlockingIOError
            data = data[self.sock.send(data[:LARGEST_WRITE]) :]


@lru_cache(1)
def _date(second: int) -> str:
    """The Date header, cached because it is the same for all responses of one second."""
    date: str = http_date(second)
    return date
