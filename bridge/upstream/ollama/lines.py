"""Decodes a body of JSON lines into payloads. No IO, no JSON."""

from __future__ import annotations

from bridge.errors import UpstreamMalformed
from bridge.upstream.transport.sse_decoder import LARGEST_EVENT


class LineDecoder:
    def __init__(self, server: str) -> None:
        self._server = server
        self._pieces: list[bytes] = []  #: of the incomplete line; joined only once
        self._length = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete."""
        head, *lines = data.split(b"\n")
        self._pieces.append(head)
        self._length += len(head)
        if not lines:
            if self._length > LARGEST_EVENT:
                raise UpstreamMalformed(f"{self._server} sent a line that is too long.")
            return []
        complete = [b"".join(self._pieces), *lines[:-1]]
        self._pieces, self._length = [lines[-1]], len(lines[-1])
        return [line for line in complete if line.strip()]

    def finish(self) -> list[bytes]:
        line, self._pieces, self._length = b"".join(self._pieces), [], 0
        return [line] if line.strip() else []
