"""How many bytes the requests of one process may hold at a time: bodies, and stored turns they go on from.

Places alone do not bound that: a body may have a few hundred bytes or 64 MB. What is too much is refused
before it is read or loaded, and the client told to come back.
"""

from __future__ import annotations

import threading

from bridge.errors import RequestTooLarge, TooBusy
from bridge.observe import metrics

#: What a byte of JSON costs while it is read, converted and sent on: the text itself, its values, what the
#: upstream is sent. Measured: 3.0 for long texts, 3.8 for images (docs/DECISIONS.md).
PER_BYTE = 4
#: Requests up to this size are bounded by their number alone.
SMALL = 64 * 1024
#: Seconds until a large body has been dealt with, or so.
RETRY_AFTER = 5.0


class MemoryBudget:
    def __init__(self, megabytes: int, max_body_mb: int) -> None:
        """The largest body must be possible, whatever the operator allows."""
        self.most = max(megabytes, PER_BYTE * max_body_mb) * 1024 * 1024
        self._used = 0
        self._lock = threading.Lock()

    def book(self, cost: int) -> bool:
        with self._lock:
            if self._used + cost > self.most:
                return False
            self._used += cost
        metrics.memory_booked(cost)
        return True

    def release(self, cost: int) -> None:
        with self._lock:
            self._used -= cost
        metrics.memory_booked(-cost)


class MemoryReservation:
    """What one request holds. To be released once; doing so again changes nothing."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._size = 0  #: in bytes of JSON
        self._cost = 0

    def add(self, size: int) -> None:
        """Raises TooBusy if others hold too much, RequestTooLarge if this is too much for an idle worker."""
        size += self._size
        cost = size * PER_BYTE if size > SMALL else 0
        if cost == self._cost or self._memory.book(cost - self._cost):
            self._size, self._cost = size, cost
            return
        metrics.memory_refused()
        if cost > self._memory.most:
            most = self._memory.most // PER_BYTE // 1024 // 1024
            raise RequestTooLarge(
                f"The request, its stored turns and its fetched media have more than {most} MB together"
            )
        raise TooBusy(
            "The bridge works on as many large requests as it can; please try again", retry_after=RETRY_AFTER
        )

    def another(self) -> MemoryReservation:
        return MemoryReservation(self._memory)

    def release(self) -> None:
        cost, self._cost, self._size = self._cost, 0, 0
        if cost:
            self._memory.release(cost)
