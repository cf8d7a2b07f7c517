"""The upstream's API keys: whose turn it is, and which of them rest.

A key that was refused rests for a while; one that ran out of quota rests for that model, since quotas are
counted by model. The ring is shared between the threads of one
process and no further: another worker finds out for itself, at the price of one refused request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable


class KeyRing:
    def __init__(
        self, keys: Iterable[str], cooldown: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._keys = list(dict.fromkeys(keys))
        self._cooldown = cooldown
        self._clock = clock
        self._lock = threading.Lock()
        self._turn = 0
        self._wakes: dict[
            tuple[str, str | None], float
        ] = {}  #: resting keys only, each for a model or for all

    def available(self, model: str | None = None) -> list[str]:
        """The keys to try, in order; each call starts with the next one, so that load spreads.

        When all rest, the one that wakes first alone: its quota may be back, and the others' surely is not.
        """
        with self._lock:
            self._wake(self._clock())
            wakes = {key: self._wakes_at(key, model) for key in self._keys}
            awake = [key for key in self._keys if not wakes[key]]
            if not awake:
                return sorted(self._keys, key=wakes.__getitem__)[:1]
            start = self._turn % len(awake)
            self._turn += 1
            return awake[start:] + awake[:start]

    def rest(self, key: str, seconds: float | None = None, model: str | None = None) -> None:
        """Leave the key out for so long (by default the cooldown), for one model or for all of them;
        a longer rest under way is kept."""
        with self._lock:
            wakes = self._clock() + (self._cooldown if seconds is None else seconds)
            self._wakes[key, model] = max(wakes, self._wakes.get((key, model), wakes))

    def _wakes_at(self, key: str, model: str | None) -> float:
        return max(self._wakes.get((key, None), 0.0), self._wakes.get((key, model), 0.0))

    def _wake(self, now: float) -> None:
        self._wakes = {resting: wakes for resting, wakes in self._wakes.items() if wakes > now}
