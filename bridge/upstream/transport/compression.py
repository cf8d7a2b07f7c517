"""Compressed bytes of an answer to plain ones, a bounded number at a time. No IO.

The bridge asks for none, but a proxy between may insist. A kilobyte may stand for a megabyte, so whoever
reads decides with each piece whether it wants to go on.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from bridge.errors import UpstreamMalformed

LARGEST_PIECE = 65_536
#: zlib's way to say: gzip or deflate, whichever it is.
ANY_COMPRESSION = 47
KNOWN = (b"gzip", b"x-gzip", b"deflate")
PLAIN = (b"", b"identity")
PADDING = b"\0"


class Decompression:
    def __init__(self) -> None:
        self._reader = zlib.decompressobj(ANY_COMPRESSION)
        self.whole = True  #: nothing is missing of what came so far

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes stand for. Raises `zlib.error` if they are not compressed."""
        if self.whole:
            data = data.lstrip(PADDING)
        piece = b""
        while data or len(piece) == LARGEST_PIECE:  # as many may wait for room, without a byte of data
            piece = self._reader.decompress(data, LARGEST_PIECE)
            self.whole = self._reader.eof
            yield piece
            data = self._reader.unconsumed_tail
            if self.whole:
                data, piece = self._reader.unused_data.lstrip(PADDING), b""
                self._reader = zlib.decompressobj(ANY_COMPRESSION)


def decompression_of(encoding: bytes) -> Decompression | None:
    if encoding in PLAIN:
        return None
    if encoding not in KNOWN:
        raise UpstreamMalformed("Gemini's answer is compressed in a way that the bridge did not ask for.")
    return Decompression()
