"""The client's end of the connection: whether it is still there, and how long it may take.

gunicorn hands the socket on; under another server, or in a test without one, every client stays and is quick.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from bridge.socket_timeouts import TIMEVAL_SIZE, seconds_from_timeval, timeval

#: A client that has closed its side no longer waits. Where the platform has no such sign, errors must do.
_HUNG_UP = getattr(select, "POLLRDHUP", 0)


def send_limit(client: socket.socket) -> float:
    """Seconds that it may take nothing."""
    return seconds_from_timeval(client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIMEVAL_SIZE))


class ClientSocket:
    def __init__(self, environ: Mapping[str, Any]) -> None:
        self.socket: socket.socket | None = environ.get("gunicorn.socket")

    def still_connected(self) -> bool:
        if self.socket is None:
            return True
        poller = select.poll()
        try:
            poller.register(self.socket, _HUNG_UP)
            return not poller.poll(0)
        except (OSError, ValueError):  # already closed
            return False

    def set_send_timeout(self, seconds: float) -> None:
        """What is sent to it, each time. By the kernel's clock: by Python's own, each piece of a stream would
        be polled for before it is sent, and the interpreter's lock handed around once more."""
        if self.socket is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval(seconds))


class SlowClients:
    """Clients that owe us bytes. A read can be held up for ever by one that drips: each single byte is in
    time.

    So gunicorn's main loop looks here every second, and closes the reading side of who is late.
    """

    def __init__(self) -> None:
        self._due: dict[socket.socket, float] = {}

    def expect(self, client: socket.socket | None, seconds: float) -> None:
        if client is not None:
            self._due[client] = time.monotonic() + seconds

    def arrived(self, client: socket.socket | None) -> bool:
        """Whether it was in time."""
        return client is None or self._due.pop(client, None) is not None

    def close_overdue(self) -> None:
        now = time.monotonic()
        late = [client for client, due in tuple(self._due.items()) if due < now]
        for client in late:
            if self._due.pop(client, None) is not None:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RD)
