"""Limits the memory that the running requests of one process use for bodies and stored turns.

The number of slots does not limit it, because a body may have a few hundred bytes or 64 MB. A request beyond
the limit is rejected before its body is read, and the client is told to retry.
"""

from __future__ import annotations

import threading

from bridge.errors import RequestTooLarge, TooBusy
from bridge.observe import metrics

#: Bytes of memory for each byte of JSON: the text, the parsed values and the request to the upstream.
#: Measured: 3.0 for long texts, 3.8 for images (docs/DECISIONS.md).
PER_BYTE = 4
#: Requests up to this size in bytes are not counted; the number of slots limits them.
SMALL = 64 * 1024
#: Seconds: about as long as a large request takes.
RETRY_AFTER = 5.0


class MemoryBudget:
    def __init__(self, megabytes: int, max_body_mb: int) -> None:
        """The largest allowed body always fits, even if `megabytes` is less."""
        self.limit = max(megabytes, PER_BYTE * max_body_mb) * 1024 * 1024
        self._used = 0
        self._lock = threading.Lock()

    def reserve(self, cost: int) -> bool:
        with self._lock:
            if self._used + cost > self.limit:
                return False
            self._used += cost
        metrics.memory_booked(cost)
        return True

    def release(self, cost: int) -> None:
        with self._lock:
            self._used -= cost
        metrics.memory_booked(-cost)


class MemoryReservation:
    """The memory of one request. Releasing it twice has no effect."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._size = 0  #: bytes of JSON
        self._cost = 0

    def add(self, size: int) -> None:
        """Reserve `size` more bytes. Raises TooBusy if other requests use too much memory, RequestTooLarge if
        the request does not fit into an idle worker."""
        size += self._size
        cost = size * PER_BYTE if size > SMALL else 0
        if cost == self._cost or self._memory.reserve(cost - self._cost):
            self._size, self._cost = size, cost
            return
        metrics.memory_refused()
        if cost > self._memory.limit:
            megabytes = self._memory.limit // PER_BYTE // 1024 // 1024
            raise RequestTooLarge(
                f"The request, its stored turns and its fetched media are larger than {megabytes} MB together"
            )
        raise TooBusy("The bridge is busy with other large requests; please retry", retry_after=RETRY_AFTER)

    def another(self) -> MemoryReservation:
        return MemoryReservation(self._memory)

    def release(self) -> None:
        cost, self._cost, self._size = self._cost, 0, 0
        if cost:
            self._memory.release(cost)
