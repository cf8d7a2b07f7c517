"""Names that count until a point in time: cool-downs, facts and failures. Each worker reads the shared ones
again after a second, and uses the names that it has seen itself when the store fails."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping

from bridge.state.cooldown_store import CooldownStore
from bridge.state.errors import StorageError
from bridge.state.learnt_facts import LIFETIME, LearntFactStore
from bridge.state.store import Store
from bridge.state.upstream_failures import BETWEEN_WRITES, KEPT, LastFailure, UpstreamFailureStore

#: Seconds between two reads of the store. A name that another worker added is known after this time.
BETWEEN_LOOKS = 1.0

log = logging.getLogger(__name__)


class ExpiringNames(Store):
    def __init__(self, label: str, now: Callable[[], float]) -> None:
        self._label = label  #: for the log
        self._now = now
        self._lock = threading.Lock()
        self._looked = 0.0
        self._until: dict[str, float] = {}

    @abstractmethod
    def _write(self, name: str, seconds: float) -> bool:
        """True if the store did not have the name. A later end is kept."""

    @abstractmethod
    def _read(self) -> Mapping[str, float]:
        """The seconds for which each name still counts."""

    def _add(self, name: str, seconds: float) -> bool:
        """True if the name did not count before, in any worker. A later end is kept."""
        now = self._now()
        new = self._until.get(name, 0.0) <= now
        self._until[name] = max(now + seconds, self._until.get(name, 0.0))
        try:
            return self._write(name, seconds)
        except StorageError as error:
            self._warn(error)
            return new

    def left(self, name: str) -> float:
        """Seconds for which the name still counts; 0 if it does not."""
        return max(0.0, self._current().get(name, 0.0) - self._now())

    def _current(self) -> dict[str, float]:
        now = self._now()
        # One thread reads the store; the others do not wait for it.
        if abs(now - self._looked) >= BETWEEN_LOOKS and self._lock.acquire(blocking=False):
            try:
                self._looked = now
                self._until = {name: now + left for name, left in self._read().items()}
            except StorageError as error:
                self._warn(error)
            finally:
                self._lock.release()
        return self._until

    def _warn(self, error: StorageError) -> None:
        log.warning("not shared between workers", extra={"file": self._label, "reason": error.reason})


class ExpiringCooldowns(ExpiringNames, CooldownStore):
    def rest(self, name: str, seconds: float) -> None:
        self._add(name, seconds)


class ExpiringFacts(ExpiringNames, LearntFactStore):
    def learn(self, fact: str) -> bool:
        return self._add(fact, LIFETIME)

    def knows(self, fact: str) -> bool:
        return self.left(fact) > 0


class ExpiringFailures(ExpiringNames, UpstreamFailureStore):
    """A name is the upstream and the error: there are few of them, and each one knows its last time."""

    def failed(self, upstream: str, error: str) -> None:
        name = f"{upstream} {error}"
        if KEPT - self.left(name) >= BETWEEN_WRITES:
            self._add(name, KEPT)

    def last(self, upstream: str) -> LastFailure | None:
        ends = {name: end for name, end in self._current().items() if name.startswith(f"{upstream} ")}
        latest = max(ends, key=ends.__getitem__, default="")
        if not self.left(latest):
            return None
        return LastFailure(latest.partition(" ")[2], KEPT - self.left(latest))
