"""Decompresses a response body in pieces of bounded size. No IO.

The bridge asks for uncompressed responses, but a proxy may compress them anyway. A kilobyte can expand to a
megabyte, so the caller can stop after each piece.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from bridge.errors import UpstreamMalformed

LARGEST_PIECE = 65_536
#: The window size that makes zlib accept gzip and deflate.
ANY_COMPRESSION = 47
KNOWN = (b"gzip", b"x-gzip", b"deflate")
PLAIN = (b"", b"identity")
PADDING = b"\0"


class Decompression:
    def __init__(self) -> None:
        self._reader = zlib.decompressobj(ANY_COMPRESSION)
        self.whole = True  #: the compressed data is complete so far

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decompressed bytes; raises `zlib.error` if these bytes are not compressed."""
        if self.whole:
            data = data.lstrip(PADDING)
        piece = b""
        while data or len(piece) == LARGEST_PIECE:  # a full piece: more output may wait inside zlib
            piece = self._reader.decompress(data, LARGEST_PIECE)
            self.whole = self._reader.eof
            yield piece
            data = self._reader.unconsumed_tail
            if self.whole:
                data, piece = self._reader.unused_data.lstrip(PADDING), b""
                self._reader = zlib.decompressobj(ANY_COMPRESSION)


def decompression_of(encoding: bytes, server: str) -> Decompression | None:
    if encoding in PLAIN:
        return None
    if encoding not in KNOWN:
        raise UpstreamMalformed(
            f"{server} sent an answer with a Content-Encoding that the bridge cannot read."
        )
    return Decompression()
