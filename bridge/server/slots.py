"""How many answers one process works on at a time.

gunicorn would queue what is too much without a word. Here a worker takes a place for each request before a
thread reads it (`bridge/server/worker.py`). A request that finds none is refused by one of the threads that
are never given to an answer; these also serve health checks, lists and errors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from bridge.errors import TooBusy
from bridge.observe import metrics
from bridge.server.memory import MemoryBudget, MemoryReservation

SPARE_THREADS = 8
#: Some answer ends within a second or two, or another worker has a place.
RETRY_AFTER = 2.0


class Slots:
    def __init__(self, threads: int, memory: MemoryBudget) -> None:
        self._free = max(1, threads - SPARE_THREADS)
        self._memory = memory
        self._lock = threading.Lock()
        self.wanted = False  #: by the worker, which is to be told of the next that is free
        self.tell: Callable[[], None] = lambda: None

    @property
    def free(self) -> bool:
        return self._free > 0

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
                "The bridge is working on as many answers as it can; please try again",
                retry_after=RETRY_AFTER,
            )
        return slot

    def reserve_memory(self) -> MemoryReservation:
        """For those who need bytes without a place."""
        return MemoryReservation(self._memory)

    def _give_back(self) -> None:
        with self._lock:
            self._free += 1
        if self.wanted:
            self.tell()

    @staticmethod
    def waited(end: str) -> None:
        """Some connection found no place here: it was served after all, refused, or handed on."""
        metrics.waited_for_slot(end)


class Slot:
    """To be given back once, with the bytes of its request; doing so again changes nothing."""

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
        """The request's bytes, for work that outlives the request; that work releases them."""
        memory, self.memory = self.memory, self.memory.another()
        return memory

    def __enter__(self) -> Slot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
