"""The client's socket: detects disconnects and sets timeouts.

gunicorn passes the socket to the application. Under another server, or in a test without one, there is no
socket: then no disconnect is detected and there are no timeouts.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from bridge.socket_timeouts import TIMEVAL_SIZE, seconds_from_timeval, timeval

#: The event for a client that closed its side. On platforms without it, only errors show a disconnect.
_DISCONNECTED = getattr(select, "POLLRDHUP", 0)


def send_timeout(client: socket.socket) -> float:
    """Seconds after which a send to the client times out."""
    return seconds_from_timeval(client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIMEVAL_SIZE))


class ClientSocket:
    def __init__(self, environ: Mapping[str, Any]) -> None:
        self.socket: socket.socket | None = environ.get("gunicorn.socket")

    def still_connected(self) -> bool:
        if self.socket is None:
            return True
        poller = select.poll()
        try:
            poller.register(self.socket, _DISCONNECTED)
            return not poller.poll(0)
        except (OSError, ValueError):  # already closed
            return False

    def set_send_timeout(self, seconds: float) -> None:
        """Limit the time of each send. The kernel enforces it (SO_SNDTIMEO): a timeout in Python would cost
        an extra poll, and a release of the interpreter lock, for each piece of a stream."""
        if self.socket is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval(seconds))


class SlowClients:
    """Deadlines for clients that are sending a request.

    A timeout for each read is not enough, because a client could send single bytes for ever. So gunicorn's
    main loop checks the deadlines every second and closes the reading side of overdue clients.
    """

    def __init__(self) -> None:
        self._due: dict[socket.socket, float] = {}

    def expect(self, client: socket.socket | None, seconds: float) -> None:
        if client is not None:
            self._due[client] = time.monotonic() + seconds

    def arrived(self, client: socket.socket | None) -> bool:
        """Remove the deadline. False if the client was overdue."""
        return client is None or self._due.pop(client, None) is not None

    def close_overdue(self) -> None:
        now = time.monotonic()
        late = [client for client, due in tuple(self._due.items()) if due < now]
        for client in late:
            if self._due.pop(client, None) is not None:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RD)
