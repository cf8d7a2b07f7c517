"""The end of a process's time: answers may finish until a deadline, then they are ended properly."""

from __future__ import annotations

import time

#: Before the process is killed: an answer notices within a tick, and its last event must still go out.
MARGIN = 3.0


class Drain:
    def __init__(self) -> None:
        self._deadline: float | None = None

    def begin(self, seconds: float) -> None:
        """The process will be killed after so many seconds."""
        self._deadline = time.monotonic() + max(0.0, seconds - MARGIN)

    @property
    def begun(self) -> bool:
        return self._deadline is not None

    @property
    def over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline
