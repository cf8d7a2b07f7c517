"""Shared between the workers of a service: which of them have free slots, how many answers run, and
connections handed over.

gunicorn's master creates everything before it starts workers, and everything outlives the workers: two pages
of memory with a byte for each worker, and a queue in the kernel. Any worker with a free slot takes a
connection from the queue, also a worker that starts later, so no connection is lost when a worker ends.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from functools import cache

_TIME = struct.Struct("d")  #: a time of the monotonic clock, which all processes share
NO_WORKER, FULL, FREE = 0, 1, 2  #: values of a worker's byte
MOST_COUNTED = 255  #: answers of one worker


class OtherWorkers:
    def __init__(self) -> None:
        self._table = mmap.mmap(-1, mmap.PAGESIZE)
        self._answers = mmap.mmap(-1, mmap.PAGESIZE)
        self._sender, self.queue = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self.queue.setblocking(False)

    # --- which workers have free slots, and how many answers run -------------------------------------

    def register(self) -> int:
        """Return a number for a new worker."""
        number = self._table.find(bytes([NO_WORKER]), 0)
        self._table[number] = FULL
        return number

    def unregister(self, number: int) -> None:
        self._table[number] = NO_WORKER
        self._answers[number] = 0

    def report(self, number: int, free: bool, answers: int) -> None:
        """`answers`: how many answers of this worker run."""
        self._table[number] = FREE if free else FULL
        self._answers[number] = min(answers, MOST_COUNTED)

    @property
    def answers(self) -> int:
        """How many answers ran in all workers when they last reported, which they do once a second."""
        return sum(self._answers[:])

    def have_free_slot(self) -> bool:
        return self._table.find(bytes([FREE]), 0) >= 0

    # --- connections ---------------------------------------------------------------------------------

    def give(self, client: socket.socket, waits_until: float) -> bool:
        """Put the connection into the queue. False if the queue is full; on many systems it holds ten."""
        try:
            socket.send_fds(self._sender, [_TIME.pack(waits_until)], [client.fileno()])
        except OSError:
            return False
        return True

    def take(self) -> tuple[socket.socket, float]:
        """Raises BlockingIOError if another worker was faster, and OSError if file descriptors ran out."""
        os.close(
            os.dup(self.queue.fileno())
        )  # without a free descriptor the kernel would drop the connection
        waits_until, descriptors, _, _ = socket.recv_fds(self.queue, _TIME.size, 1)
        if not descriptors:
            raise BlockingIOError
        return socket.socket(fileno=descriptors[0]), _TIME.unpack(waits_until)[0]


@cache
def siblings() -> OtherWorkers:
    return OtherWorkers()
