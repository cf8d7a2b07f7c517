"""Something slow that many may need at once: one thread runs it for all of them, and none stands still."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from bridge.upstream.base import Tick

T = TypeVar("T")


class SingleFlight(Generic[T]):
    def __init__(self, run: Callable[[], T], tick: float) -> None:
        self._run = run
        self._tick = tick
        self._lock = threading.Lock()
        self._under_way: Future[T] | None = None

    def begin(self) -> Future[T]:
        """Join the run under way, or start one."""
        with self._lock:
            if self._under_way is None or self._under_way.done():
                self._under_way = Future()
                threading.Thread(target=self._go, args=(self._under_way,), daemon=True).start()
            return self._under_way

    def outcome(self) -> Generator[Tick, None, T]:
        """What the run gives or raises; nothing, once a tick, until then."""
        future = self.begin()
        while wait((future,), self._tick).not_done:
            yield ()
        return future.result()

    def _go(self, future: Future[T]) -> None:
        try:
            future.set_result(self._run())
        except BaseException as error:
            future.set_exception(error)
