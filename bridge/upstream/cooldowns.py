"""What shall be left alone for a while: keys that were refused, models that are overloaded.

The caller chooses the names. `bridge/state/cooldown_store.py` shares them between all workers; this one
serves where there is only one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Cooldowns(Protocol):
    def rest(self, name: str, seconds: float) -> None:
        """A longer rest under way is kept."""

    def left(self, name: str) -> float:
        """Seconds until it may be used again; 0 if it may."""


class LocalCooldowns:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wakes: dict[str, float] = {}

    def rest(self, name: str, seconds: float) -> None:
        now = self._clock()
        awake = [each for each, wakes in tuple(self._wakes.items()) if wakes <= now]
        for each in awake:
            self._wakes.pop(each, None)
        self._wakes[name] = max(self._wakes.get(name, 0.0), now + seconds)

    def left(self, name: str) -> float:
        return max(0.0, self._wakes.get(name, 0.0) - self._clock())
