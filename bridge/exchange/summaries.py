"""What all requests of a process share to find and to write summaries."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bridge.context.summary_task import SummaryTask
from bridge.errors import TooBusy
from bridge.protocols.summary_seal import SummarySeal
from bridge.state.errors import StorageError
from bridge.state.summary_store import SummaryStore

log = logging.getLogger(__name__)

MOST_IN_BACKGROUND = 4


class SummaryNeeded(Exception):
    """The request fits into its window only with a summary that does not exist yet."""

    def __init__(self, task: SummaryTask) -> None:
        self.task = task


class SummarySource(Protocol):
    """The summaries of one owner."""

    @property
    def owner(self) -> str: ...

    def known(self, digests: Sequence[bytes]) -> Mapping[bytes, str]:
        """The summaries that exist for these digests."""

    def need(self, task: SummaryTask) -> None:
        """Raises SummaryNeeded, unless the request must do without this summary."""

    def prepare(self, task: SummaryTask) -> None:
        """Have the summary written in the background."""


class Summaries:
    """The summaries of one process."""

    def __init__(self, store: SummaryStore) -> None:
        self.store = store
        self._secret: bytes | None = None
        self._lock = threading.Lock()
        self._in_background: set[bytes] = set()

    def seal(self, owner: str) -> SummarySeal:
        return SummarySeal(owner, self._shared_secret)

    def _shared_secret(self) -> bytes:
        if self._secret is None:
            try:
                self._secret = self.store.secret()
            except StorageError:
                raise TooBusy("The bridge cannot check summaries at the moment; its log says why") from None
        return self._secret

    def in_background(self, digest: bytes, work: Callable[[], None]) -> None:
        """Run the work in a thread, unless this process does it already or is busy with others."""
        with self._lock:
            if digest in self._in_background or len(self._in_background) >= MOST_IN_BACKGROUND:
                return
            self._in_background.add(digest)

        def run() -> None:
            try:
                work()
            except Exception:
                log.exception("summary failed")
            finally:
                with self._lock:
                    self._in_background.discard(digest)

        threading.Thread(target=run, name="summary", daemon=True).start()
