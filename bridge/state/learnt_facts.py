"""Facts learnt from refusals by the upstream: a model does not exist, a field is not accepted.

A fact is a name that its user chooses. Facts expire, because Google may change its answer.
"""

from __future__ import annotations

from abc import abstractmethod

from bridge.state.store import Store

#: Seconds for which a fact is believed. After that one request tries the upstream again.
LIFETIME = 86_400.0


class LearntFactStore(Store):
    """When the store fails, each worker uses the facts that it knows. No method raises StorageError."""

    @abstractmethod
    def learn(self, fact: str) -> bool:
        """True if no worker knew it before."""

    @abstractmethod
    def knows(self, fact: str) -> bool: ...
