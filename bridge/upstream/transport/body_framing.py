"""Finds the end of an HTTP/1.1 response body: by its chunks, by its length, or by the connection. No IO."""

from __future__ import annotations

import re
from typing import Protocol

#: Lines with the size of a chunk, and trailers, are short; a longer line is not HTTP.
LONGEST_LINE = 8192
#: Trailers are skipped; without a limit endless trailers would hold a connection for ever.
LARGEST_TRAILERS = 65_536
LINE_END = b"\r\n"
#: `int` also accepts signs, underscores and 0x; a proxy on the way may read those differently.
SIZE = re.compile(rb"[0-9A-Fa-f]+(?=[ \t]*(?:;|\Z))")
#: The usual form of that line: without extensions.
PLAIN_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")


class BadFraming(ValueError):
    """The body does not match the framing that the head announced."""


class BodyFraming(Protocol):
    @property
    def done(self) -> bool:
        """The body is complete."""

    @property
    def ends_itself(self) -> bool:
        """The body has an end of its own, so a connection that closes earlier truncates it."""

    @property
    def reusable(self) -> bool:
        """The connection can carry another response."""

    def feed(self, data: bytes) -> bytes:
        """The part of the body in these bytes."""


class Chunked:
    """Chunks with a size each; an empty chunk and optional trailers end the body."""

    ends_itself = True

    def __init__(self) -> None:
        self.done = False
        self._missing = 0  #: bytes of the current chunk that have not arrived
        self._line_end_due = False  #: the line end after a chunk comes next
        self._in_trailers = False
        self._trailer_bytes = 0
        self._rest = b""  #: bytes of an incomplete line

    @property
    def reusable(self) -> bool:
        return self.done and not self._rest

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data if self._rest else data
        pieces: list[bytes] = []
        between_chunks = not (self._missing or self._line_end_due or self._in_trailers)
        at = _whole_chunks(data, pieces) if between_chunks else 0
        while at < len(data) and not self.done:
            next_at = self._step(data, at, pieces)
            if next_at == at:
                break
            at = next_at
        self._rest = data[at:]
        return b"".join(pieces)

    def _step(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """The offset of the next step; `at` itself if these bytes are too few for a step."""
        if self._missing:
            piece = data[at : at + self._missing]
            self._missing -= len(piece)
            self._line_end_due = not self._missing
            pieces.append(piece)
            return at + len(piece)
        if self._line_end_due:
            return self._line_end(data, at)
        end = data.find(LINE_END, at)
        length = (end if end >= 0 else len(data) - data.endswith(b"\r")) - at
        if length > LONGEST_LINE:
            raise BadFraming("a line has no end")
        if end < 0:
            return at
        self._line(data[at:end])
        return end + len(LINE_END)

    def _line_end(self, data: bytes, at: int) -> int:
        found = data[at : at + len(LINE_END)]
        if len(found) < len(LINE_END):
            return at
        if found != LINE_END:
            raise BadFraming("a chunk is longer than its size")
        self._line_end_due = False
        return at + len(LINE_END)

    def _line(self, line: bytes) -> None:
        if self._in_trailers:
            self.done = not line
            self._trailer_bytes += len(line)
            if self._trailer_bytes > LARGEST_TRAILERS:
                raise BadFraming("the trailers have no end")
            return
        size = SIZE.match(line)
        if size is None:
            raise BadFraming("a chunk has no size")
        self._missing = int(size[0], 16)
        self._in_trailers = not self._missing


def _whole_chunks(data: bytes, pieces: list[bytes]) -> int:
    """Take all complete chunks of the usual form; returns the offset of the first other one."""
    at = 0
    while (size := PLAIN_SIZE.match(data, at)) and (length := int(size[1], 16)):
        start = size.end()
        end = start + length
        if data[end : end + len(LINE_END)] != LINE_END:
            break
        pieces.append(data[start:end])
        at = end + len(LINE_END)
    return at


class Sized:
    """As many bytes as Content-Length says."""

    ends_itself = True

    def __init__(self, length: int) -> None:
        self._missing = length
        self.reusable = False

    @property
    def done(self) -> bool:
        return self._missing == 0

    def feed(self, data: bytes) -> bytes:
        body = data[: self._missing]
        self._missing -= len(body)
        self.reusable = self.done and len(body) == len(data)
        return body


class UntilClose:
    """All bytes until the connection closes, so a truncated body looks like a complete one."""

    ends_itself = False
    done = False
    reusable = False

    def feed(self, data: bytes) -> bytes:
        return data
