"""The last failure of each upstream, for the operator. Failures that another attempt replaced count too."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from bridge.state.store import Store

#: Seconds for which a failure is remembered.
KEPT = 7 * 86_400.0
#: Seconds in which further failures of one kind are not written.
BETWEEN_WRITES = 10.0


class LastFailure(NamedTuple):
    error: str  #: the kind, as in the log
    seconds_ago: float


class UpstreamFailureStore(Store):
    """When the store fails, each worker knows its own failures. No method raises StorageError."""

    @abstractmethod
    def failed(self, upstream: str, error: str) -> None: ...

    @abstractmethod
    def last(self, upstream: str) -> LastFailure | None: ...
