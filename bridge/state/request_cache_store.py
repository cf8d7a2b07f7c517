"""The store of the request cache: answers by the digest of their request."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from bridge.state.store import Store

#: Tidying looks at all rows, so it runs once in this many writes.
WRITES_BETWEEN_TIDYING = 200


class CachedEntry(NamedTuple):
    data: bytes
    age: float  #: seconds


class RequestCacheStore(Store):
    """Each entry has a scope, and is only found in it. Entries expire; in a full store the oldest entries are
    deleted first."""

    @abstractmethod
    def find(self, scope: str, digest: bytes) -> CachedEntry | None: ...

    @abstractmethod
    def keep(self, scope: str, digest: bytes, data: bytes, lifetime: float) -> None:
        """Replaces an entry with the same digest. `lifetime` is in seconds."""

    @abstractmethod
    def clear(self, scope: str | None = None) -> int:
        """Delete the entries of one scope, or all. Returns their number."""
