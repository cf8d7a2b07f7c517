"""The limits of a run: rounds, seconds and tokens. At a limit the model gets one more turn to finish."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from bridge.agents.end_reason import EndReason

LAST_TURN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RunLimits:
    rounds: int = 30
    seconds: float = 600.0
    tokens: int = 0  #: 0: no limit


class LimitCheck:
    def __init__(self, limits: RunLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._began = clock()

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    @property
    def time_is_up(self) -> bool:
        return self.seconds >= self._limits.seconds

    @property
    def last_turn_is_over(self) -> bool:
        return self.seconds >= self._limits.seconds + LAST_TURN_SECONDS

    def reached(self, rounds: int, tokens: int) -> EndReason | None:
        """The limit that forbids another round."""
        if self.time_is_up:
            return EndReason.TIMEOUT
        if rounds >= self._limits.rounds:
            return EndReason.MAX_TURNS
        if self._limits.tokens and tokens >= self._limits.tokens:
            return EndReason.MAX_TOKENS
        return None
