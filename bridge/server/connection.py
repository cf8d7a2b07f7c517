"""A client's connection, as gunicorn's worker keeps it."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

from gunicorn.workers.gthread import TConn

if TYPE_CHECKING:
    from bridge.server.slots import Slot

#: How each request begins that may ask for an answer.
POST = b"POST "


class Connection(TConn):
    sock: socket.socket
    data_ready: bool
    parser: Any
    slot: Slot | None = None  #: for the request that it brings now
    waits_until = 0.0  #: for a place, in this worker and others; 0: it need not wait

    def __init__(self, cfg: Any, client: socket.socket, address: Any, server: Any) -> None:
        super().__init__(cfg, client, address, server)
        self.came = time.monotonic()

    @property
    def reads_ahead(self) -> bool:
        """Some of its next request has been taken off the socket."""
        return self.parser is not None and bool(self.parser.unreader.buf.getvalue())

    def beginning(self) -> bytes | None:
        """The first bytes of its next request, left where they are; None until some have come."""
        if self.reads_ahead:
            return bytes(self.parser.unreader.buf.getvalue()[: len(POST)])
        try:
            return self.sock.recv(len(POST), socket.MSG_PEEK)
        except BlockingIOError:
            return None
        except (OSError, ValueError):  # it has gone; or it is encrypted, and only its reader can tell
            return b""

    def wants_slot(self) -> bool:
        beginning = self.beginning()
        return bool(beginning) and POST.startswith(beginning or b"")
