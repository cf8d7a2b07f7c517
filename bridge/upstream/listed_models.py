"""The upstream's list of its models, remembered for a while. An old list is better than none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from bridge.errors import UpstreamError
from bridge.gemini.types import JsonObject
from bridge.upstream.base import Upstream

PAUSE_AFTER_FAILURE = 10.0
#: Seconds for which a caller that can do without the list waits for it.
PATIENCE = 1.0


class ListedModels:
    def __init__(
        self, upstream: Upstream, lifetime: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._upstream = upstream
        self._lifetime = lifetime
        self._clock = clock
        self._lock = threading.Lock()
        self._models: Mapping[str, JsonObject] = {}
        self._due = clock()
        self._paused_until = clock()
        self.answered = False  #: whether the upstream did, when it was last asked

    def all(self) -> Mapping[str, JsonObject]:
        """Each as Google describes it, by its name. Raises UpstreamError if there is no list at all."""
        # While one thread asks, the others are served the old list, if there is one.
        if self._clock() >= self._due and self._lock.acquire(blocking=not self._models):
            try:
                if self._clock() >= self._due:
                    self._fetch()
            finally:
                self._lock.release()
        return self._models

    def at_hand(self) -> Mapping[str, JsonObject]:
        """Likewise, for a caller that does not wait for an upstream that is down."""
        if self._clock() >= max(self._due, self._paused_until):
            asking = threading.Thread(target=self._try_to_fetch, daemon=True)
            asking.start()
            asking.join(PATIENCE)
        return self._models

    def _try_to_fetch(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                self._fetch()
            except UpstreamError:
                pass  # `answered` tells
            finally:
                self._lock.release()

    def _fetch(self) -> None:
        try:
            listed = self._upstream.models()
        except UpstreamError:
            self.answered = False
            self._paused_until = self._clock() + PAUSE_AFTER_FAILURE
            if not self._models:
                raise
            self._due = self._paused_until
            return
        self.answered = True
        self._models = {str(model.get("name", "")).removeprefix("models/"): model for model in listed}
        self._due = self._clock() + self._lifetime
