"""A cache of the upstreams' lists of models. An old list is better than no list."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from bridge.errors import UpstreamError
from bridge.gemini.types import JsonObject
from bridge.upstream.directory import UpstreamDirectory

PAUSE_AFTER_FAILURE = 10.0
#: Seconds that a caller of `at_hand` waits for a new list.
SHORT_WAIT = 1.0


class ModelsAtHand(Protocol):
    """The models by name, as in Google's list."""

    @property
    def answered(self) -> bool:
        """Whether the last fetch succeeded."""

    def all(self) -> Mapping[str, JsonObject]:
        """Raises UpstreamError if no list was ever fetched."""

    def at_hand(self) -> Mapping[str, JsonObject]:
        """The cached models; a caller never waits longer than SHORT_WAIT, even if the upstream is down."""


class ListedModels:
    """The models of one upstream."""

    def __init__(
        self,
        upstreams: UpstreamDirectory,
        name: str,
        lifetime: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstreams = upstreams
        self._name = name
        self._lifetime = lifetime
        self._clock = clock
        self._lock = threading.Lock()
        self._models: Mapping[str, JsonObject] = {}
        self._due = clock()
        self._paused_until = clock()
        self.answered = False  #: whether the last fetch succeeded

    def all(self) -> Mapping[str, JsonObject]:
        # While one thread fetches the list, other threads get the old list, if there is one.
        if self._clock() >= self._due and self._lock.acquire(blocking=not self._models):
            try:
                if self._clock() >= self._due:
                    self._fetch()
            finally:
                self._lock.release()
        return self._models

    def at_hand(self) -> Mapping[str, JsonObject]:
        if fetching := self.begin_fetch():
            fetching.join(SHORT_WAIT)
        return self._models

    @property
    def cached(self) -> Mapping[str, JsonObject]:
        return self._models

    def begin_fetch(self) -> threading.Thread | None:
        """The thread that fetches a new list, if the cached one is too old."""
        if self._clock() < max(self._due, self._paused_until):
            return None
        fetching = threading.Thread(target=self._try_to_fetch, daemon=True)
        fetching.start()
        return fetching

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
            listed = self._upstreams[self._name].models()
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


class AllListedModels:
    """The models of all upstreams: under their own names where the name leads to that upstream, else as
    `upstream:model`. An upstream that is slow or down does not delay the lists of the others."""

    def __init__(self, lists: Mapping[str, ListedModels], serves: Callable[[str, str], bool]) -> None:
        """`serves(upstream, model)`: whether a request for the model may go to the upstream."""
        self._lists = lists
        self._serves = serves

    @property
    def answered(self) -> bool:
        return any(each.answered for each in self._lists.values())

    def all(self) -> Mapping[str, JsonObject]:
        models = self.at_hand()
        if not any(each.cached for each in self._lists.values()):
            next(iter(self._lists.values())).all()  # waits longer, and raises the reason
            models = self.at_hand()
        return models

    def at_hand(self) -> Mapping[str, JsonObject]:
        deadline = time.monotonic() + SHORT_WAIT
        for fetching in [each.begin_fetch() for each in self._lists.values()]:
            if fetching is not None:
                fetching.join(max(0.0, deadline - time.monotonic()))
        models: dict[str, JsonObject] = {}
        for upstream, each in self._lists.items():
            for name, model in self._named(upstream, each):
                models.setdefault(name, model)
        return models

    def _named(self, upstream: str, listed: ListedModels) -> Iterator[tuple[str, JsonObject]]:
        for model, described in listed.cached.items():
            if self._serves(upstream, model):
                yield model, described
            else:
                name = f"{upstream}:{model}"
                yield name, {**described, "name": f"models/{name}"}
