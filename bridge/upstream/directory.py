"""All upstreams by name, and the order in which those that serve the same model are tried.

A conversation stays at one upstream, because each upstream caches its prompts. Every worker chooses the same
upstream, also after a restart: it ranks them by a digest of name and conversation, in proportion to their
weights. When an upstream is added or removed, only the conversations that change to or from it move.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from bridge.settings import UpstreamRow
from bridge.settings.routes import Target
from bridge.upstream.base import Upstream
from bridge.upstream.cooldowns import Cooldowns, model_cooldown

Make = Callable[[UpstreamRow], Upstream]


class UpstreamDirectory:
    """Creates each upstream at its first use."""

    def __init__(self, rows: Iterable[UpstreamRow], make: Make, cooldowns: Cooldowns) -> None:
        self.rows = {row.name: row for row in rows}
        self.several = len(self.rows) > 1
        self._make = make
        self._cooldowns = cooldowns
        self._made: dict[str, Upstream] = {}
        self._making = threading.Lock()

    def __getitem__(self, name: str) -> Upstream:
        return self._made.get(name) or self._made_now(name)

    def _made_now(self, name: str) -> Upstream:
        with self._making:
            if name not in self._made:
                self._made[name] = self._make(self.rows[name])
            return self._made[name]

    def all(self) -> list[Upstream]:
        """All upstreams; raises SettingsError if one cannot be used."""
        return [self[name] for name in self.rows]

    def serving(self, choices: Iterable[Iterable[Target]]) -> list[Upstream]:
        """The upstreams of all these targets."""
        return [self[name] for name in {target.upstream for choice in choices for target in choice}]

    def ranked(self, model: str, names: Sequence[str], conversation: str) -> list[Target]:
        """The model at each of these upstreams, in the order in which they are tried: those in cool-down
        last. Without a conversation, each call chooses anew by weight."""
        order = sorted(names, key=lambda name: _score(name, conversation, self.rows[name].weight))
        return sorted((Target(name, model) for name in order), key=self._is_resting)

    def _is_resting(self, target: Target) -> bool:
        return self._cooldowns.left(model_cooldown(target)) > 0


def _score(name: str, conversation: str, weight: int) -> float:
    """Weighted rendezvous hashing: the lowest score wins as often as its weight says."""
    if conversation:
        digest = sha256(f"{conversation}:{name}".encode()).digest()
        uniform = (int.from_bytes(digest[:7]) + 0.5) / (1 << 56)
    else:
        uniform = 1.0 - random.random()
    return -math.log(uniform) / weight
