"""Reads chunks from blocking code in a thread of its own, so that the consumer gets control at every tick.

A bounded queue connects the two threads: if the consumer is slow, the reader waits.
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
    def __init__(self, start: Callable[[], Generator[Chunk, None, None]], timeouts: Timeouts) -> None:
        self._start = start
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

    # --- the reader thread ---------------------------------------------------------------------------

    def _read(self) -> None:
        with self._socket_holder:
            try:
                with closing(self._start()) as chunks:
                    for chunk in chunks:
                        if not self._put(chunk):
                            return
                self._put(END)
            except BaseException as error:
                self._put(error)

    def _put(self, item: Any) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=self._timeouts.tick)
            except Full:
                continue
            return True
        return False

    # --- the consumer thread -------------------------------------------------------------------------

    def _arriving(self) -> Iterator[Sequence[Chunk]]:
        began = last_arrival = time.monotonic()
        longest_silence = self._timeouts.first_byte
        while not self._closed.is_set():
            before = time.monotonic()
            items = self._take(max(0.0, min(self._timeouts.tick, last_arrival + longest_silence - before)))
            now = time.monotonic()
            self.waited += now - before
            if items:
                last_arrival, longest_silence = now, self._timeouts.between
            elif now - last_arrival >= longest_silence:
                raise UpstreamTimeout("Gemini did not answer in time.")
            if now - began > self._timeouts.whole:
                raise UpstreamTimeout("Gemini's answer took longer than the bridge allows.")
            chunks = [item for item in items if isinstance(item, Chunk)]
            if chunks or not items:
                yield chunks
            if len(chunks) < len(items):
                return self._end(items[-1])

    def _take(self, timeout: float) -> list[Any]:
        """All items in the queue; waits up to `timeout` for the first."""
        items: list[Any] = []
        try:
            items.append(self._queue.get(timeout=timeout))
            while isinstance(items[-1], Chunk):
                items.append(self._queue.get_nowait())
        except Empty:
            pass
        return items

    def _end(self, item: Any) -> None:
        if isinstance(item, BaseException) and not self._closed.is_set():
            raise item
