"""Chooses the upstream API key of a call, and holds the cool-downs of keys.

A conversation keeps its key, because Gemini caches its prompts for the project of that key. Each worker
finds the same key without communication, also after a restart: all workers rank the keys by a digest of key
and conversation. Calls without a conversation use the keys in turn.

A refused key cools down for all models; a key without quota cools down for one model, because quotas are
counted by model. All workers share the cool-downs, under a digest of the key and never under the key.
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
        """The keys to try, in order: the key of the conversation, then its substitutes. Without a
        conversation each call starts with the next key, which spreads the load.

        If all keys are in cool-down, only the key whose cool-down ends first: its problem may be over.
        """
        waits = {key: self._left(key, model) for key in self._names}
        ready = [key for key in self._names if not waits[key]]
        if not ready:
            return sorted(self._names, key=waits.__getitem__)[:1]
        if conversation:
            return sorted(ready, key=lambda key: _rank(conversation, self._names[key]))
        with self._lock:
            start = self._turn % len(ready)
            self._turn += 1
        return ready[start:] + ready[:start]

    def upstream_wait(self, model: str) -> float:
        """Seconds until the first key is usable, if the upstream named a delay for every key; else 0."""
        return min(
            (self._cooldowns.left(_upstream_delay_name(name, model)) for name in self._names.values()),
            default=0.0,
        )

    def rest(self, key: str, delay: float | None = None, model: str = ALL_MODELS) -> None:
        """Start the key's cool-down for one model or for all; `delay` is what the upstream asked for."""
        name = self._names[key]
        if not self._cooldown:
            return
        if delay is not None:
            self._cooldowns.rest(_upstream_delay_name(name, model), delay)
        self._cooldowns.rest(f"{name}:{model}", self._cooldown if delay is None else delay)

    def _left(self, key: str, model: str) -> float:
        name = self._names[key]
        return max(self._cooldowns.left(f"{name}:{ALL_MODELS}"), self._cooldowns.left(f"{name}:{model}"))


def _rank(conversation: str, name: str) -> bytes:
    return sha256(f"{conversation}:{name}".encode()).digest()


def _upstream_delay_name(name: str, model: str) -> str:
    return f"{name}:{model}:told"
