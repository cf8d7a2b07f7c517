"""Where the body of an HTTP/1.1 answer ends: by its frames, by its length, or with the connection. No IO."""

from __future__ import annotations

import re
from typing import Protocol

#: The size of a frame, or a trailer, is a short line; an endless one is not HTTP.
LONGEST_LINE = 8192
#: Nobody reads trailers; without a bound they would hold a connection for ever.
LARGEST_TRAILERS = 65_536
LINE_END = b"\r\n"
#: Python's own reading of numbers also takes signs, underscores and 0x, which others on the way may not.
SIZE = re.compile(rb"[0-9A-Fa-f]+(?=[ \t]*(?:;|\Z))")
#: The whole of that line, as nearly everybody writes it.
PLAIN_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")


class BadFraming(ValueError):
    """The bytes are not what the head of the answer promised."""


class BodyFraming(Protocol):
    @property
    def done(self) -> bool:
        """The body is whole."""

    @property
    def reusable(self) -> bool:
        """Another answer may follow on the same connection."""

    def feed(self, data: bytes) -> bytes:
        """What these bytes hold of the body."""


class Chunked:
    """Frames of a known size each, the last one empty, then perhaps trailers."""

    def __init__(self) -> None:
        self.done = False
        self._missing = 0  #: bytes of the frame under way
        self._line_end_due = False  #: behind each frame
        self._in_trailers = False
        self._trailers = 0  #: bytes of them
        self._rest = b""  #: bytes that no step could be made of yet

    @property
    def reusable(self) -> bool:
        return self.done and not self._rest

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data if self._rest else data
        pieces: list[bytes] = []
        between = not (self._missing or self._line_end_due or self._in_trailers)
        at = _whole_frames(data, pieces) if between else 0
        while at < len(data) and not self.done:
            following = self._step(data, at, pieces)
            if following == at:
                break
            at = following
        self._rest = data[at:]
        return b"".join(pieces)

    def _step(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Where the next step begins; here, if these bytes are not enough for one."""
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
            raise BadFraming("a line without an end")
        if end < 0:
            return at
        self._line(data[at:end])
        return end + len(LINE_END)

    def _line_end(self, data: bytes, at: int) -> int:
        found = data[at : at + len(LINE_END)]
        if len(found) < len(LINE_END):
            return at
        if found != LINE_END:
            raise BadFraming("a frame longer than its size")
        self._line_end_due = False
        return at + len(LINE_END)

    def _line(self, line: bytes) -> None:
        if self._in_trailers:
            self.done = not line
            self._trailers += len(line)
            if self._trailers > LARGEST_TRAILERS:
                raise BadFraming("trailers without an end")
            return
        size = SIZE.match(line)
        if size is None:
            raise BadFraming("a frame without a size")
        self._missing = int(size[0], 16)
        self._in_trailers = not self._missing


def _whole_frames(data: bytes, pieces: list[bytes]) -> int:
    """Take the frames that are here in full; where the first begins that is not, or is no plain one."""
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
    """As many bytes as the head said."""

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


class UntilTheEnd:
    """All that comes: only the end of the connection ends it, so nobody can tell whether it is whole."""

    done = False
    reusable = False

    def feed(self, data: bytes) -> bytes:
        return data
