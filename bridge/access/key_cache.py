"""The keys as one worker knows them: all in memory, looked at again after a second, and never older than two.

No request waits for the file, and what a client sends never reaches it: a key is found by the digest of its
secret in a dictionary. While the file cannot be read, what was read last still holds.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bridge.access.key_store import Held, KeyStore

log = logging.getLogger(__name__)

BETWEEN_LOOKS = 1.0
PAUSE_AFTER_FAILURE = 5.0


class KeysUnavailable(Exception):
    """The keys could not be read even once."""


@dataclass(frozen=True, slots=True)
class _Known:
    version: tuple[int, int]
    held: Mapping[bytes, Held]


class KeyCache:
    def __init__(self, store: KeyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self.readable = True  #: whether what is known is also new
        self._due = clock()

    def any(self) -> bool:
        """Whether a key is defined at all, in force or not."""
        return bool(self._fresh().held)

    def find(self, secret_digest: bytes) -> Held | None:
        return self._fresh().held.get(secret_digest)

    def _fresh(self) -> _Known:
        # While one thread looks, the others go by what is known, unless that is nothing, or old.
        now = self._clock()
        old = self._known is None or now >= self._due + BETWEEN_LOOKS
        if now >= self._due and self._lock.acquire(blocking=old):
            try:
                if self._clock() >= self._due:
                    self._look()
            finally:
                self._lock.release()
        if self._known is None:
            raise KeysUnavailable
        return self._known

    def _look(self) -> None:
        try:
            version = self._store.version()
            if self._known is None or version != self._known.version:
                self._known = _Known(version, self._store.held())
                log.info(
                    "keys read", extra={"keys": len({each.key.id for each in self._known.held.values()})}
                )
        except (sqlite3.Error, OSError) as error:
            log.warning("keys cannot be read", extra={"reason": type(error).__name__})
            # Where nothing is known, nobody is served until the next look.
            pause = BETWEEN_LOOKS if self._known is None else PAUSE_AFTER_FAILURE
            self.readable, self._due = False, self._clock() + pause
            return
        self.readable, self._due = True, self._clock() + BETWEEN_LOOKS
