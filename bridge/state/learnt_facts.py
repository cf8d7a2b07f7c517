"""What the upstream taught the bridge by refusing: a model that is gone, a field that it does not take.

A fact is a name that its user makes up. `SharedFacts` are shared by all workers and kept over restarts;
`LocalFacts` serve where there is only one process. Facts expire, since Google changes its mind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from bridge.state.expiring_names import ExpiringNames

FACTS_FILE = "learnt.sqlite3"

#: Seconds for which a fact is believed. After that the upstream is asked again, by one request.
LIFETIME = 86_400.0


class LearntFacts(Protocol):
    def learn(self, fact: str) -> bool:
        """True if nobody knew it before."""

    def knows(self, fact: str) -> bool: ...


class LocalFacts:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def learn(self, fact: str) -> bool:
        new = not self.knows(fact)
        self._until[fact] = self._clock() + LIFETIME
        return new

    def knows(self, fact: str) -> bool:
        return self._until.get(fact, 0.0) > self._clock()


class SharedFacts(ExpiringNames):
    def learn(self, fact: str) -> bool:
        return self.add(fact, LIFETIME)

    def knows(self, fact: str) -> bool:
        return self.left(fact) > 0
