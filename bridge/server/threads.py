"""The thread pool of a worker. Threads are started on demand, up to a limit, and kept.

`ThreadPoolExecutor` does the same, but also creates a `Future` with a lock for each task. Nothing here uses
the result, and the `Future` would cost a twentieth of the time of a short request.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any

log = logging.getLogger(__name__)

Task = tuple[Callable[[Any], None], Any]


class Threads:
    """Only one thread may call `run`. A thread survives every exception of a task."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._started = 0
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._free: deque[None] = deque()  #: one entry for each idle thread

    def run(self, function: Callable[[Any], None], argument: Any) -> None:
        if self._free:
            self._free.pop()
        elif self._started < self._limit:
            self._start()
        self._tasks.put((function, argument))

    def _start(self) -> None:
        self._started += 1
        try:
            Thread(target=self._work, name=f"answers-{self._started}").start()
        except RuntimeError:  # the system allows no more threads; the running threads do the task later
            self._started -= 1
            if not self._started:
                raise

    def shutdown(self, wait: bool = False) -> None:
        """Each thread ends after the queued tasks. This call does not wait; the end of the process does."""
        for _ in range(self._started):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, argument = task
            try:
                function(argument)
            except BaseException:
                log.exception("a task failed with an exception")
            task = function = argument = None  # type: ignore[assignment]  # so that the idle thread keeps no task
            self._free.append(None)
