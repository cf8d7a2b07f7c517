"""Cool-downs of keys that were refused, and of models that are overloaded or out of reach at an upstream.

The caller chooses the name of a cool-down. `bridge/state/cooldown_store.py` shares cool-downs between all
workers; LocalCooldowns is for a single process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from bridge.errors import BridgeError
from bridge.gemini.service_tier import FLEX
from bridge.settings.routes import Target

#: Seconds, if the upstream names no time.
MODEL_COOLDOWN = 30.0


class Cooldowns(Protocol):
    def rest(self, name: str, seconds: float) -> None:
        """Start a cool-down; a longer one that is already running is kept."""

    def left(self, name: str) -> float:
        """Seconds until the cool-down ends; 0 without a cool-down."""


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


def rest_model(cooldowns: Cooldowns, target: Target, error: BridgeError, tier: str | None = None) -> None:
    """Start the cool-down of a model at an upstream that failed."""
    seconds = MODEL_COOLDOWN if error.retry_after is None else error.retry_after
    cooldowns.rest(model_cooldown(target, tier), seconds)


def model_cooldown(target: Target, tier: str | None = None) -> str:
    """The flex tier has a name of its own: it can be full while other tiers have capacity."""
    name = f"model:{target}"
    return f"{name}:{FLEX}" if tier == FLEX else name
