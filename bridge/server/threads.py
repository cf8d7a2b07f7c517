"""The threads of a worker: started when they are needed, kept, and never more than a number.

They do what `ThreadPoolExecutor` does, which also keeps a promise of a result, with a lock of its own, for
each task. Nobody asks for it here, and it takes a twentieth of a short request.
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
    """Given tasks by one thread alone. Whatever a task raises, its thread goes on."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = 0
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._free: deque[None] = deque()  #: one for each thread that nothing was found for yet

    def run(self, function: Callable[[Any], None], argument: Any) -> None:
        if self._free:
            self._free.pop()
        elif self._started < self._most:
            self._start()
        self._tasks.put((function, argument))

    def _start(self) -> None:
        self._started += 1
        try:
            Thread(target=self._work, name=f"answers-{self._started}").start()
        except RuntimeError:  # the system has no room for one more; those that are there will do it
            self._started -= 1
            if not self._started:
                raise

    def shutdown(self, wait: bool = False) -> None:
        """Each ends after what was given before. Nobody waits for them here: the process does, at its end."""
        for _ in range(self._started):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, argument = task
            try:
                function(argument)
            except BaseException:
                log.exception("a thread failed")
            task = function = argument = None  # type: ignore[assignment]  # or the last one would live on
            self._free.append(None)
