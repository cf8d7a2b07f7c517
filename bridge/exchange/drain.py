"""The end of a process's time: answers may finish until a deadline, then they are ended properly."""

from __future__ import annotations

import math
import time

#: Before the process is killed: an answer notices within a tick, and its last event must still go out.
MARGIN = 3.0


class Drain:
    def __init__(self) -> None:
        self.begun = False
        self._deadline = math.inf

    def begin(self, seconds: float) -> None:
        """The process will be killed after so many seconds."""
        self._deadline = time.monotonic() + max(0.0, seconds - MARGIN)
        self.begun = True

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._deadline
