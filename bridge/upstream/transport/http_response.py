"""An HTTP answer, read as it comes by somebody who has other things to look after.

Whoever reads is given the turn again after every tick without news: the kernel ends a read that brings none.
With a timeout of Python's own, or by polling, the interpreter's lock would be handed around once more for
every piece of a stream. Each of the waits has its own limit.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import requests

from bridge.errors import UpstreamError, UpstreamMalformed, UpstreamTimeout, UpstreamTruncated
from bridge.socket_timeouts import timeval
from bridge.upstream.base import TICK
from bridge.upstream.transport.body_framing import BadFraming, UntilTheEnd
from bridge.upstream.transport.compression import decompression_of
from bridge.upstream.transport.deferred_response import DeferredResponse
from bridge.upstream.transport.exception_map import cut, foreign_errors_translated, unreachable
from bridge.upstream.transport.response_head import BadHead, Head, HeadReader

READ_SIZE = 16_384  #: a record of TLS; each stream that waits holds so much

NOTHING_YET = b""

#: Bytes are read into one of these and copied out. To read them into an object of their own means to have
#: room for the most and give back what was not needed, each time. That leaves holes in the memory of a
#: worker, which grows by megabytes in ten minutes.
_BUFFERS: list[memoryview] = []


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for what, in seconds."""

    connect: float
    first_byte: float
    between: float
    whole: float
    tick: float = TICK


class HttpResponse(ABC):
    status: int
    waited: float = 0.0  #: seconds spent on sending the request and waiting for bytes

    @abstractmethod
    def head(self) -> Iterator[None]:
        """Nothing, once a tick, until the status is known."""

    @abstractmethod
    def body(self) -> Iterator[bytes]:
        """The body's bytes as they come, and none once a tick."""

    @abstractmethod
    def close(self) -> None:
        """May be called at any time, from any thread, and more than once."""


def read_response(response: requests.Response, timeouts: Timeouts) -> HttpResponse:
    raw = response.raw
    return (
        IncrementalResponse(raw, timeouts)
        if isinstance(raw, DeferredResponse)
        else BufferedResponse(response)
    )


class IncrementalResponse(HttpResponse):
    def __init__(self, promise: DeferredResponse, timeouts: Timeouts) -> None:
        self._promise = promise
        self._socket: Any = promise.connection.sock
        #: What the kernel knows: behind a proxy that is spoken to over TLS, urllib3 wraps it once more.
        self._wire: socket.socket = getattr(self._socket, "socket", self._socket)
        self._timeouts = timeouts
        self._began = time.monotonic()
        self._silent_since = self._began
        self._ticked = self._began
        self._closed = False
        self._head: Head | None = None
        self._tick = 0.0
        self._tick_due = False
        self._early = b""  #: of the body, come with the head
        # Python takes the socket for one that never waits, and raises what we wait for; so does TLS.
        self._socket.settimeout(0)
        os.set_blocking(self._wire.fileno(), True)
        self._wait_at_most(timeouts.first_byte)

    def head(self) -> Iterator[None]:
        reader = HeadReader()
        while (data := self._receive()) is not None:
            if not data:
                yield
                continue
            try:
                head = reader.feed(data)
            except BadHead as error:
                raise UpstreamMalformed(f"Gemini's answer is not HTTP: {error}.") from error
            if head is not None:
                self._take_head(head, reader.behind)
                return
        raise unreachable(ConnectionResetError())

    def _take_head(self, head: Head, early: bytes) -> None:
        self._head = head
        self.status = head.status
        self._early = early
        self._wait_at_most(self._timeouts.between)

    def _wait_at_most(self, patience: float) -> None:
        """Without news; for so long. Silence is looked at once a tick."""
        self._patience = patience
        tick = min(self._timeouts.tick, patience)
        if tick != self._tick:
            self._tick = tick
            with suppress(OSError):  # closed meanwhile, as whoever reads will see
                self._wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval(tick))

    def body(self) -> Iterator[bytes]:
        assert self._head is not None
        framing, packed = self._head.framing, decompression_of(self._head.encoding)
        early = self._early
        try:
            while not framing.done and (data := early or self._receive()) is not None:
                body, early = framing.feed(data), b""
                if packed is not None and body:
                    yield from filter(None, packed.feed(body))
                elif body or not data:
                    yield body
        except (BadFraming, zlib.error) as error:
            raise cut(error) from error
        self._end(self._head)
        if packed is not None and not packed.whole:
            raise UpstreamTruncated("Gemini's answer ended in the middle of what was compressed.")

    def _end(self, head: Head) -> None:
        framing = head.framing
        if not framing.done and not isinstance(framing, UntilTheEnd) and not self._closed:
            raise UpstreamTruncated("The connection to Gemini was closed in the middle of the answer.")
        if framing.reusable and not self._closed:
            self._closed = True
            self._promise.kept(lasting=head.lasting)
        else:
            self.close()

    def _receive(self) -> bytes | None:
        """The bytes that have come; none once a tick; None at the end of the connection.

        A tick is also due while bytes come: bytes that never complete an event would else keep the turn.
        """
        if self._tick_due:
            self._tick_due = False
            return NOTHING_YET
        began = time.monotonic()
        try:
            data = self._read()
        except (OSError, ValueError) as error:
            if self._closed:  # before the read or during it: the error is a consequence
                return None
            raise self._broken(error) from error
        now = time.monotonic()
        self.waited += now - began
        if data is None:
            self._check_patience(now)
            self._ticked = now
            return NOTHING_YET
        self._silent_since = now
        self._check_whole_time(now)
        if now - self._ticked >= self._tick:
            self._ticked, self._tick_due = now, True
        return data or None

    def _read(self) -> bytes | None:
        """The bytes that have come; None if none came within a tick."""
        try:
            buffer = _BUFFERS.pop()
        except IndexError:  # as many threads wait at this moment as never before
            buffer = memoryview(bytearray(READ_SIZE))
        try:
            return bytes(buffer[: self._socket.recv_into(buffer)])
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        finally:
            _BUFFERS.append(buffer)

    def _check_patience(self, now: float) -> None:
        if now - self._silent_since >= self._patience:
            begun = self._head is not None
            where = "fell silent in the middle of the answer" if begun else "did not answer in time"
            raise UpstreamTimeout(f"Gemini {where}.")
        self._check_whole_time(now)

    def _check_whole_time(self, now: float) -> None:
        if now - self._began > self._timeouts.whole:
            raise UpstreamTimeout("Gemini's answer took longer than any may.")

    def _broken(self, error: Exception) -> UpstreamError:
        return unreachable(error) if self._head is None else cut(error)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # Another thread may be waiting for bytes: closing would not wake it, a shutdown does.
        with suppress(OSError, ValueError):
            self._wire.shutdown(socket.SHUT_RDWR)
        self._promise.connection.close()
        with suppress(OSError):
            self._socket.close()


class BufferedResponse(HttpResponse):
    """Of a connection that waits: behind a SOCKS proxy, or in a test."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        self._closed = False
        self.status = response.status_code

    def head(self) -> Iterator[None]:
        return iter(())

    def body(self) -> Iterator[bytes]:
        raw: Any = self._response.raw
        packed = decompression_of(self._response.headers.get("Content-Encoding", "").lower().encode())
        try:
            with foreign_errors_translated():
                while data := self._read(raw):
                    yield from filter(None, packed.feed(data)) if packed else (data,)
        except zlib.error as error:
            raise cut(error) from error
        self.close()

    def _read(self, raw: Any) -> bytes:
        began = time.monotonic()
        data: bytes = b"" if self._closed else raw.read1(READ_SIZE, decode_content=False)
        self.waited += time.monotonic() - began
        return data

    def close(self) -> None:
        self._closed = True
        self._response.close()
