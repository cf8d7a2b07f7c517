"""The keys in the memory of one worker. They are read again after one second, and are never older than two.

Almost no request waits for the store, and no data of a client reaches it: a key is found in a dictionary,
by the digest of its secret. While the store cannot be read, the keys of the last successful read are used, by
this worker or by another one of its machine.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from bridge.state.errors import StorageError
from bridge.state.key_store import KeySecret, KeysLost, KeyStore

log = logging.getLogger(__name__)

BETWEEN_LOOKS = 1.0
PAUSE_AFTER_FAILURE = 5.0


class KeysUnavailable(Exception):
    """The keys could not be read even once."""


@dataclass(frozen=True, slots=True)
class _Known:
    version: Hashable
    secrets: Mapping[bytes, KeySecret]


class KeyCache:
    def __init__(self, store: KeyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self.readable = True  #: whether the last read succeeded
        self._due = clock()
        store.on_change(self.expire)

    def expire(self) -> None:
        """Look at the store with the next request."""
        self._due = self._clock()

    def any(self) -> bool:
        """Whether a key is defined at all, in force or not."""
        return bool(self._fresh().secrets)

    def find(self, secret_digest: bytes) -> KeySecret | None:
        return self._fresh().secrets.get(secret_digest)

    def digests_of(self, key_id: str) -> list[bytes]:
        return [shown for shown, secret in self._fresh().secrets.items() if secret.key.id == key_id]

    def _fresh(self) -> _Known:
        # While one thread reads, the others use the known keys, unless there are none or they are too old.
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
                self._known = _Known(version, self._store.secrets_by_digest())
                keys = {each.key.id for each in self._known.secrets.values()}
                log.info("keys read", extra={"keys": len(keys)})
        except StorageError as error:
            if self.readable:  # else the failure was reported before
                log.warning("keys cannot be read", extra={"reason": error.reason})
            if self._known is None and not isinstance(error, KeysLost):
                self._use_copy()
            # Without any known keys every request is refused, so the next attempt comes sooner.
            pause = BETWEEN_LOOKS if self._known is None else PAUSE_AFTER_FAILURE
            self.readable, self._due = False, self._clock() + pause
            return
        self.readable, self._due = True, self._clock() + BETWEEN_LOOKS

    def _use_copy(self) -> None:
        """A copy without keys is not used: it would open a bridge that has got keys since."""
        if secrets := self._store.last_known():
            self._known = _Known(None, secrets)
            log.warning("the keys that were last known are used")
