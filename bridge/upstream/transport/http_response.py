"""Incremental HTTP/1.1 response reader: it returns control to its caller at every tick.

A receive timeout of the kernel (SO_RCVTIMEO) ends a read that gets no bytes within a tick. Python's own
socket timeouts, and polling, would release and take the interpreter's lock once more for each piece.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from bridge.errors import UpstreamError, UpstreamMalformed, UpstreamTimeout, UpstreamTruncated
from bridge.socket_timeouts import timeval
from bridge.upstream.base import TICK
from bridge.upstream.transport.body_framing import BadFraming
from bridge.upstream.transport.compression import decompression_of
from bridge.upstream.transport.exception_map import GEMINI, truncated, unreachable
from bridge.upstream.transport.response_head import BadHead, Head, HeadReader

READ_SIZE = 16_384  #: one TLS record; each waiting stream holds one buffer of this size

NOTHING_YET = b""

#: Free read buffers. Bytes are read into one of them and copied out: `recv` would allocate READ_SIZE bytes
#: for each read and shrink them, which fragments the heap; a worker then grows by megabytes in ten minutes.
_BUFFERS: list[memoryview] = []


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds."""

    connect: float
    first_byte: float
    between: float
    whole: float
    tick: float = TICK


class OpenConnection(Protocol):
    """What a response needs of the connection that carries it. urllib3's connections have both."""

    @property
    def sock(self) -> Any: ...

    def close(self) -> None: ...


class HttpResponse:
    """The response to a request that was written to `connection`; `release` takes it back for reuse."""

    status: int
    retry_after: float | None  #: seconds, from the header of that name

    def __init__(
        self,
        connection: OpenConnection,
        release: Callable[[Any], None],
        timeouts: Timeouts,
        server: str = GEMINI,
    ) -> None:
        self.waited = 0.0  #: seconds spent on sending the request and waiting for bytes
        self._connection = connection
        self._release = release
        self._socket: Any = connection.sock
        #: The kernel's socket: for TLS inside TLS (an HTTPS proxy) urllib3 wraps it in an SSLTransport.
        self._wire: socket.socket = getattr(self._socket, "socket", self._socket)
        self._timeouts = timeouts
        self._server = server
        self._began = time.monotonic()
        self._silent_since = self._began
        self._ticked = self._began
        self._closed = False
        self._head: Head | None = None
        self._tick = 0.0
        self._tick_due = False
        self._early = b""  #: bytes of the body that came with the head
        # For Python, and for TLS, the socket is non-blocking: a read without data raises. The kernel blocks.
        self._socket.settimeout(0)
        os.set_blocking(self._wire.fileno(), True)
        self._limit_silence(timeouts.first_byte)

    def head(self) -> Iterator[None]:
        """Read until the status is known; yields at every tick."""
        reader = HeadReader()
        while (data := self._receive()) is not None:
            if not data:
                yield
                continue
            try:
                head = reader.feed(data)
            except BadHead as error:
                raise UpstreamMalformed(
                    f"{self._server} sent an answer that is not HTTP: {error}."
                ) from error
            if head is not None:
                self._take_head(head, reader.rest)
                return
        raise unreachable(ConnectionResetError(), self._server)

    def _take_head(self, head: Head, early: bytes) -> None:
        self._head = head
        self.status = head.status
        self.retry_after = head.retry_after
        self._early = early
        self._limit_silence(self._timeouts.between)

    def _limit_silence(self, seconds: float) -> None:
        """Allow so many seconds without bytes; the limit is checked at every tick."""
        self._longest_silence = seconds
        tick = min(self._timeouts.tick, seconds)
        if tick != self._tick:
            self._tick = tick
            with suppress(OSError):  # closed by another thread; the next read reports that
                self._wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval(tick))

    def field(self, name: str) -> str:
        """A field of the head; empty if the head has none."""
        return self._head.field(name) if self._head else ""

    def body(self) -> Iterator[bytes]:
        """The body's bytes as they arrive; an empty piece at every tick."""
        assert self._head is not None
        framing, decompression = self._head.framing, decompression_of(self._head.encoding, self._server)
        early = self._early
        try:
            while not framing.done and (data := early or self._receive()) is not None:
                body, early = framing.feed(data), b""
                if decompression is not None and body:
                    yield from filter(None, decompression.feed(body))
                elif body or not data:
                    yield body
        except (BadFraming, zlib.error) as error:
            raise truncated(error, self._server) from error
        self._end(self._head)
        if decompression is not None and not decompression.whole:
            raise UpstreamTruncated(f"The answer of {self._server} ended in the middle of compressed data.")

    def _end(self, head: Head) -> None:
        framing = head.framing
        if not framing.done and framing.ends_itself and not self._closed:
            raise UpstreamTruncated(
                f"The connection to {self._server} was closed in the middle of the answer."
            )
        if framing.reusable and head.keep_alive and not self._closed:
            self._closed = True
            self._release(self._connection)
        else:
            self.close()

    def _receive(self) -> bytes | None:
        """The bytes that arrived; no bytes at a tick; None at the end of the connection.

        Ticks also happen while bytes arrive: bytes that never complete an event must not keep control.
        """
        if self._tick_due:
            self._tick_due = False
            return NOTHING_YET
        began = time.monotonic()
        try:
            data = self._read()
        except (OSError, ValueError) as error:
            if self._closed:  # before the read or during it: closing caused the error
                return None
            raise self._broken(error) from error
        now = time.monotonic()
        self.waited += now - began
        if data is None:
            self._check_silence(now)
            self._ticked = now
            return NOTHING_YET
        self._silent_since = now
        self._check_whole_time(now)
        if now - self._ticked >= self._tick:
            self._ticked, self._tick_due = now, True
        return data or None

    def _read(self) -> bytes | None:
        """The bytes that arrived; None if none arrived within a tick."""
        try:
            buffer = _BUFFERS.pop()
        except IndexError:  # more threads are reading now than ever before
            buffer = memoryview(bytearray(READ_SIZE))
        try:
            return bytes(buffer[: self._socket.recv_into(buffer)])
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        finally:
            _BUFFERS.append(buffer)

    def _check_silence(self, now: float) -> None:
        if now - self._silent_since >= self._longest_silence:
            begun = self._head is not None
            problem = "stopped sending in the middle of the answer" if begun else "did not answer in time"
            raise UpstreamTimeout(f"{self._server} {problem}.")
        self._check_whole_time(now)

    def _check_whole_time(self, now: float) -> None:
        if now - self._began > self._timeouts.whole:
            raise UpstreamTimeout(f"The answer of {self._server} took longer than the bridge allows.")

    def _broken(self, error: Exception) -> UpstreamError:
        translated = unreachable if self._head is None else truncated
        return translated(error, self._server)

    def close(self) -> None:
        """May be called at any time, from any thread, and more than once."""
        if self._closed:
            return
        self._closed = True
        # Another thread may be waiting for bytes: `shutdown` wakes that thread, `close` does not.
        with suppress(OSError, ValueError):
            self._wire.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        with suppress(OSError):
            self._socket.close()
