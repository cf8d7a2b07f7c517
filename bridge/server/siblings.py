"""What the workers of a service know of each other: who has room, and connections left by one to another.

Both are made in gunicorn's master before it makes workers, and outlive each of them: a page of memory with a
byte for each worker, and a queue in the kernel. A connection in the queue is taken by whichever worker has
room, also by one that is started later, so none is lost when a worker ends.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from functools import cache

_TIME = struct.Struct("d")  #: of the clock that all processes share
NOBODY, FULL, ROOM = 0, 1, 2  #: what a byte says


class OtherWorkers:
    def __init__(self) -> None:
        self._table = mmap.mmap(-1, mmap.PAGESIZE)
        self._giving, self.queue = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._giving.setblocking(False)
        self.queue.setblocking(False)

    # --- who has room --------------------------------------------------------------------------------

    def enter(self) -> int:
        """The number of a worker that is about to be made."""
        number = self._table.find(bytes([NOBODY]), 0)
        self._table[number] = FULL
        return number

    def leave(self, number: int) -> None:
        self._table[number] = NOBODY

    def tell(self, number: int, room: bool) -> None:
        self._table[number] = ROOM if room else FULL

    def have_room(self) -> bool:
        return self._table.find(bytes([ROOM]), 0) >= 0

    # --- connections ---------------------------------------------------------------------------------

    def give(self, client: socket.socket, waits_until: float) -> bool:
        """Leave it to whoever has room; false if the queue is full, which is so at ten on many systems."""
        try:
            socket.send_fds(self._giving, [_TIME.pack(waits_until)], [client.fileno()])
        except OSError:
            return False
        return True

    def take(self) -> tuple[socket.socket, float]:
        """Raises BlockingIOError if another worker was quicker, and OSError if no file may be opened."""
        os.close(os.dup(self.queue.fileno()))  # without room for it the kernel would drop the connection
        told, descriptors, _, _ = socket.recv_fds(self.queue, _TIME.size, 1)
        if not descriptors:
            raise BlockingIOError
        return socket.socket(fileno=descriptors[0]), _TIME.unpack(told)[0]


@cache
def siblings() -> OtherWorkers:
    return OtherWorkers()
