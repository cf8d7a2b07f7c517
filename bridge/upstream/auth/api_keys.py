"""The upstream's API keys: which one a call leaves by, and which of them rest.

A conversation keeps its key, since what Gemini has cached of it is cached for that key's project. Each worker
finds the same one without asking the others, before and after a restart: all rank the keys by a digest of key
and conversation. What belongs to no conversation takes the keys in turn.

A key that was refused rests for a while; one that ran out of quota rests for that model, since quotas are
counted by model. All workers learn of it, and none ever learns the key: a digest stands for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from hashlib import sha256

from bridge.upstream.cooldowns import Cooldowns

ALL_MODELS = "*"


class ApiKeyPool:
    def __init__(self, keys: Iterable[str], cooldown: float, cooldowns: Cooldowns) -> None:
        self._names = {key: f"key:{sha256(key.encode()).hexdigest()[:24]}" for key in keys}
        self._cooldown = cooldown
        self._cooldowns = cooldowns
        self._lock = threading.Lock()
        self._turn = 0

    def available(self, model: str = ALL_MODELS, conversation: str = "") -> list[str]:
        """The keys to try, in order: that of the conversation, and behind it those that take its place while
        it rests. Without a conversation each call starts with the next key, so that load spreads.

        When all rest, the one that wakes first alone: what it rests for may be over.
        """
        rests = {key: self._left(key, model) for key in self._names}
        awake = [key for key in self._names if not rests[key]]
        if not awake:
            return sorted(self._names, key=rests.__getitem__)[:1]
        if conversation:
            return sorted(awake, key=lambda key: _rank(conversation, self._names[key]))
        with self._lock:
            start = self._turn % len(awake)
            self._turn += 1
        return awake[start:] + awake[:start]

    def told_to_wait(self, model: str) -> float:
        """Seconds until the first key may be used again, where the upstream itself has said so for each."""
        return min((self._cooldowns.left(_told(name, model)) for name in self._names.values()), default=0.0)

    def rest(self, key: str, told: float | None = None, model: str = ALL_MODELS) -> None:
        """Leave the key out for as long as the upstream told, else for the cooldown; for a model or for
        all."""
        name = self._names[key]
        if not self._cooldown:
            return
        if told is not None:
            self._cooldowns.rest(_told(name, model), told)
        self._cooldowns.rest(f"{name}:{model}", self._cooldown if told is None else told)

    def _left(self, key: str, model: str) -> float:
        name = self._names[key]
        return max(self._cooldowns.left(f"{name}:{ALL_MODELS}"), self._cooldowns.left(f"{name}:{model}"))


def _rank(conversation: str, name: str) -> bytes:
    return sha256(f"{conversation}:{name}".encode()).digest()


def _told(name: str, model: str) -> str:
    return f"{name}:{model}:told"
