"""How many answers one process works on at a time.

gunicorn would queue what is too much without a word. Here it is told so at once, by one of the threads that
are never given to an answer; they also serve health checks, lists and errors.
"""

from __future__ import annotations

import threading
from types import TracebackType

from bridge.errors import TooBusy

SPARE_THREADS = 8
#: Some answer ends within a second or two, or another worker has a place.
RETRY_AFTER = 2.0


class Places:
    def __init__(self, threads: int) -> None:
        self._free = threading.BoundedSemaphore(max(1, threads - SPARE_THREADS))

    def take(self) -> Place:
        if not self._free.acquire(blocking=False):
            raise TooBusy(
                "The bridge is working on as many answers as it can; please try again",
                retry_after=RETRY_AFTER,
            )
        return Place(self._free)


class Place:
    """To be given back once; doing so again changes nothing."""

    def __init__(self, free: threading.BoundedSemaphore) -> None:
        self._free: threading.BoundedSemaphore | None = free

    def give_back(self) -> None:
        free, self._free = self._free, None
        if free is not None:
            free.release()

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()
