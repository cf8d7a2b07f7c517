"""Shutdown of a process: answers may finish until a deadline, then they end with an error event."""

from __future__ import annotations

import math
import time

#: Seconds before the kill: an answer notices the deadline within a tick, and then sends its last event.
MARGIN = 3.0


class Drain:
    def __init__(self) -> None:
        self.begun = False
        self._deadline = math.inf

    def begin(self, seconds: float) -> None:
        """Call this when the process will be killed after `seconds`."""
        self._deadline = time.monotonic() + max(0.0, seconds - MARGIN)
        self.begun = True

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._deadline
