"""Chunks from code that waits: a thread reads them, so that whoever wants them need not wait too.

One thread for each answer, and a short queue between: who reads faster than it is taken from him waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from queue import Empty, Full, Queue
from typing import Any

from bridge.errors import UpstreamTimeout
from bridge.gemini.types import Chunk
from bridge.upstream.base import ChunkStream
from bridge.upstream.sdk.cancellable_socket import SocketHolder
from bridge.upstream.transport.http_response import Timeouts

LONGEST_QUEUE = 64
END = object()


class ReaderStream(ChunkStream):
    def __init__(self, ask: Callable[[], Generator[Chunk, None, None]], timeouts: Timeouts) -> None:
        self._ask = ask
        self._timeouts = timeouts
        self._queue: Queue[Any] = Queue(LONGEST_QUEUE)
        self._socket_holder = SocketHolder()
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        if self._closed.is_set():
            return
        threading.Thread(target=self._read, daemon=True).start()
        try:
            yield from self._arriving()
        finally:
            self.close()

    def close(self) -> None:
        self._closed.set()
        self._socket_holder.cancel()

    # --- the thread that waits -----------------------------------------------------------------------

    def _read(self) -> None:
        with self._socket_holder:
            try:
                with closing(self._ask()) as chunks:
                    for chunk in chunks:
                        if not self._handed_over(chunk):
                            return
                self._handed_over(END)
            except BaseException as error:
                self._handed_over(error)

    def _handed_over(self, item: Any) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=self._timeouts.tick)
            except Full:
                continue
            return True
        return False

    # --- the thread that does not --------------------------------------------------------------------

    def _arriving(self) -> Iterator[Sequence[Chunk]]:
        began = heard = time.monotonic()
        patience = self._timeouts.first_byte
        while not self._closed.is_set():
            asked = time.monotonic()
            items = self._taken(max(0.0, min(self._timeouts.tick, heard + patience - asked)))
            now = time.monotonic()
            self.waited += now - asked
            if items:
                heard, patience = now, self._timeouts.between
            elif now - heard >= patience:
                raise UpstreamTimeout("Gemini did not answer in time.")
            if now - began > self._timeouts.whole:
                raise UpstreamTimeout("Gemini's answer took longer than any may.")
            chunks = [item for item in items if isinstance(item, Chunk)]
            if chunks or not items:
                yield chunks
            if len(chunks) < len(items):
                return self._end(items[-1])

    def _taken(self, longest: float) -> list[Any]:
        """What has come, or comes in time; all at once."""
        items: list[Any] = []
        try:
            items.append(self._queue.get(timeout=longest))
            while isinstance(items[-1], Chunk):
                items.append(self._queue.get_nowait())
        except Empty:
            pass
        return items

    def _end(self, item: Any) -> None:
        if isinstance(item, BaseException) and not self._closed.is_set():
            raise item
