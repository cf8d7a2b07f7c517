"""A client's connection in gunicorn's worker."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

from gunicorn.workers.gthread import TConn

if TYPE_CHECKING:
    from bridge.server.slots import Slot

#: Every request that needs a slot begins with this.
POST = b"POST "


class Connection(TConn):
    sock: socket.socket
    data_ready: bool
    parser: Any
    slot: Slot | None = None  #: the slot of its current request
    waits_until = 0.0  #: until when it waits for a slot, in this worker and others; 0: it does not wait

    def __init__(self, cfg: Any, client: socket.socket, address: Any, server: Any) -> None:
        super().__init__(cfg, client, address, server)
        self.accepted_at = time.monotonic()

    @property
    def has_buffered_data(self) -> bool:
        """Whether gunicorn has already read a part of the next request from the socket."""
        return self.parser is not None and bool(self.parser.unreader.buf.getvalue())

    def peek(self) -> bytes | None:
        """The first bytes of the next request, without consuming them; None if there are none yet."""
        if self.has_buffered_data:
            return bytes(self.parser.unreader.buf.getvalue()[: len(POST)])
        try:
            return self.sock.recv(len(POST), socket.MSG_PEEK)
        except BlockingIOError:
            return None
        except (OSError, ValueError):  # the client has disconnected, or the connection is encrypted
            return b""

    def wants_slot(self) -> bool:
        first_bytes = self.peek()
        return bool(first_bytes) and POST.startswith(first_bytes or b"")
