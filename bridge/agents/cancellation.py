"""Tells running tools to stop. One thread cancels, the threads of the tools notice it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Cancellation:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._calls: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep until cancelled; returns whether it was."""
        return self._event.wait(seconds)

    def on_cancel(self, call: Callable[[], None]) -> None:
        """Call this when cancelled, at once if that has happened: it may close a connection, must not block
        and must not raise."""
        with self._lock:
            if not self._event.is_set():
                self._calls.append(call)
                return
        call()

    def cancel(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, []
            self._event.set()
        for call in calls:
            call()
