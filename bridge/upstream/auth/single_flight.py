"""Runs a slow function once, in its own thread, for all callers that need its result at the same time."""

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
        self._running: Future[T] | None = None

    def begin(self) -> Future[T]:
        """Join the current run, or start one."""
        with self._lock:
            if self._running is None or self._running.done():
                self._running = Future()
                threading.Thread(target=self._run_into, args=(self._running,), daemon=True).start()
            return self._running

    def outcome(self) -> Generator[Tick, None, T]:
        """Wait for the result of the run; yields at every tick."""
        future = self.begin()
        while wait((future,), self._tick).not_done:
            yield ()
        return future.result()

    def _run_into(self, future: Future[T]) -> None:
        try:
            future.set_result(self._run())
        except BaseException as error:
            future.set_exception(error)
