"""Limits the number of answers that one process produces at a time.

gunicorn would silently queue excess requests. Here the worker reserves a slot for each request before a
thread reads it (`bridge/server/worker.py`). Some threads are never used for answers: they reject the requests
that get no slot, and serve health checks, lists and errors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from bridge.errors import TooBusy
from bridge.observe import metrics
from bridge.server.memory import MemoryBudget, MemoryReservation

SPARE_THREADS = 8
#: Seconds in which an answer usually ends, or another worker gets a free slot.
RETRY_AFTER = 2.0


class Slots:
    def __init__(self, threads: int, memory: MemoryBudget) -> None:
        self._all = self._free = max(1, threads - SPARE_THREADS)
        self._memory = memory
        self._lock = threading.Lock()
        self.notify_when_free = False  #: True: call `on_free` when a slot is released
        self.on_free: Callable[[], None] = lambda: None

    @property
    def free(self) -> bool:
        return self._free > 0

    @property
    def taken(self) -> int:
        return self._all - self._free

    def more_than_half_taken(self) -> bool:
        return 2 * self.taken > self._all

    def reserve(self) -> Slot | None:
        with self._lock:
            if not self._free:
                return None
            self._free -= 1
        return Slot(self._give_back, self.reserve_memory())

    def take(self, reserved: Slot | None = None) -> Slot:
        slot = reserved or self.reserve()
        if slot is None:
            raise TooBusy(
                "The bridge is busy: all its slots for answers are in use; please retry",
                retry_after=RETRY_AFTER,
            )
        return slot

    def reserve_memory(self) -> MemoryReservation:
        """A memory reservation for a request that needs no slot."""
        return MemoryReservation(self._memory)

    def _give_back(self) -> None:
        with self._lock:
            self._free += 1
        if self.notify_when_free:
            self.on_free()

    @staticmethod
    def count_wait(outcome: str) -> None:
        """Count a connection that found no free slot here; it was served later, refused or handed over."""
        metrics.waited_for_slot(outcome)


class Slot:
    """A slot with the memory of its request. Releasing it twice has no effect."""

    __slots__ = ("_give_back", "memory")

    def __init__(self, release: Callable[[], None], memory: MemoryReservation) -> None:
        self._give_back: Callable[[], None] | None = release
        self.memory = memory

    def release(self) -> None:
        self.memory.release()
        release, self._give_back = self._give_back, None
        if release is not None:
            release()

    def detach_memory(self) -> MemoryReservation:
        """Return the memory of the request, for work that outlives the request and releases it later."""
        memory, self.memory = self.memory, self.memory.another()
        return memory

    def __enter__(self) -> Slot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
