"""Decodes an event stream into the payloads of its events. No IO, no JSON.

Two rules go beyond the standard, because Gemini's streams need them. Lines that are not SSE (a
pretty-printed error object in the middle of a stream, or a body that is plain JSON) are collected into a
payload of their own. An incomplete event at the end of the stream is returned instead of dropped.
"""

from __future__ import annotations

from bridge.errors import UpstreamMalformed
from bridge.upstream.transport.exception_map import GEMINI

#: Twice the size of the largest pictures that Gemini draws. A larger event is taken for an endless one.
LARGEST_EVENT = 64 << 20
#: A short line takes ten times its size in memory, so the number of lines has a limit too.
MOST_LINES = 1_000_000

BOM = b"\xef\xbb\xbf"
FIELD = b"data: "
EVENT_END = b"\r\n\r\n"
IGNORED_FIELDS = frozenset((b"", b"event", b"id", b"retry"))  # an empty name is a comment


class SseDecoder:
    def __init__(self, server: str = GEMINI) -> None:
        self._server = server
        #: Pieces of the incomplete line; joined only once, so that the cost stays linear.
        self._line: list[bytes] = []
        self._data: list[bytes] = []  #: values of the event's `data:` lines
        self._bare: list[bytes] = []  #: lines that are not SSE
        self._ready: list[bytes] = []
        self._at_start = True
        self._unfinished = 0  #: bytes since the last payload

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that these bytes complete, in order."""
        if not (self._data or self._bare or any(self._line)):  # between events
            data = self._read_events(data)
        if data:
            self._feed_lines(data)
        ready, self._ready = self._ready, []
        self._unfinished = len(data) if ready else self._unfinished + len(data)
        if self._unfinished > LARGEST_EVENT or len(self._data) + len(self._bare) > MOST_LINES:
            raise UpstreamMalformed(f"{self._server} sent an event that is too large.")
        return ready

    def _read_events(self, data: bytes) -> bytes:
        """Take complete events of one `data:` line each, Gemini's usual form; returns the other bytes."""
        *events, rest = data.split(EVENT_END)
        for number, event in enumerate(events):
            payload = event[len(FIELD) :]
            if not event.startswith(FIELD) or b"\n" in event or not payload.strip():
                return EVENT_END.join((*events[number:], rest))
            self._ready.append(payload)
            self._at_start = False
        return rest

    def _feed_lines(self, data: bytes) -> None:
        lines = data.split(b"\n")
        if len(lines) == 1:
            self._line.append(data)
            return
        self._line.append(lines[0])
        lines[0] = b"".join(self._line)
        self._line = [lines.pop()]
        for line in lines:
            self._read_line(line)

    def finish(self) -> list[bytes]:
        """The payloads that the end of the stream completes."""
        self._read_line(b"".join(self._line))
        self._line = []
        self._end_event()
        self._end_bare()
        ready, self._ready = self._ready, []
        return ready

    def _read_line(self, line: bytes) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(BOM)
        line = line.removesuffix(b"\r")
        if not line:
            self._end_event()  # bare lines continue: JSON may contain blank lines
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._end_bare()
            self._data.append(value.removeprefix(b" "))
        elif field not in IGNORED_FIELDS:
            self._end_event()
            self._bare.append(line)

    def _end_event(self) -> None:
        self._emit(self._data)
        self._data = []

    def _end_bare(self) -> None:
        self._emit(self._bare)
        self._bare = []

    def _emit(self, lines: list[bytes]) -> None:
        if lines and (payload := b"\n".join(lines)).strip():
            self._ready.append(payload)
