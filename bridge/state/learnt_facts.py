"""Learnt facts shared by all workers, and kept over restarts."""

from __future__ import annotations

from bridge.learnt_facts import LIFETIME
from bridge.state.expiring_names import ExpiringNames

FACTS_FILE = "learnt.sqlite3"


class SharedFacts(ExpiringNames):
    def learn(self, fact: str) -> bool:
        return self.add(fact, LIFETIME)

    def knows(self, fact: str) -> bool:
        return self.left(fact) > 0
