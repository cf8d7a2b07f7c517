"""A cache of the upstream's list of models. An old list is better than no list."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from bridge.errors import UpstreamError
from bridge.gemini.types import JsonObject
from bridge.upstream.base import Upstream

PAUSE_AFTER_FAILURE = 10.0
#: Seconds that a caller of `at_hand` waits for a new list.
SHORT_WAIT = 1.0


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
        self.answered = False  #: whether the last fetch succeeded

    def all(self) -> Mapping[str, JsonObject]:
        """The models by name, as in Google's list. Raises UpstreamError if no list was ever fetched."""
        # While one thread fetches the list, other threads get the old list, if there is one.
        if self._clock() >= self._due and self._lock.acquire(blocking=not self._models):
            try:
                if self._clock() >= self._due:
                    self._fetch()
            finally:
                self._lock.release()
        return self._models

    def at_hand(self) -> Mapping[str, JsonObject]:
        """The cached models; a caller never waits longer than SHORT_WAIT, even if the upstream is down."""
        if self._clock() >= max(self._due, self._paused_until):
            fetching = threading.Thread(target=self._try_to_fetch, daemon=True)
            fetching.start()
            fetching.join(SHORT_WAIT)
        return self._models

    def _try_to_fetch(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                self._fetch()
            except UpstreamError:
                pass  # `answered` reports the failure
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
