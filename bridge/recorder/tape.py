"""The tape of one request. It only appends references to values that exist anyway; nothing is serialised
before the request has ended and is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

from bridge.gemini.types import Chunk, GenerateRequest, JsonObject

#: Batches at the beginning and at the end of a stream that a tape holds. It counts those between.
FIRST_BATCHES = 32
LAST_BATCHES = 32


class Recording(NamedTuple):
    """Whether and how a request is recorded. `reason` is empty if it is kept only after a failure."""

    level: str
    reason: str = ""

    @property
    def shown(self) -> str:
        """The value of the header that tells the client."""
        return self.level if self.reason else f"on-error; {self.level}"


@dataclass(frozen=True, slots=True)
class RequestLine:
    """What a request says beside its body."""

    headers: Mapping[str, str]
    path: Mapping[str, str]  #: the values of the path's `<placeholders>`
    query: Mapping[str, str]


class Batch(NamedTuple):
    at: float
    chunks: Sequence[Chunk]
    events: Sequence[tuple[str, Any]]


class Tape:
    """An implementation of `bridge.observe.trace.Trace`."""

    def __init__(self, recording: Recording, line: RequestLine, size: int) -> None:
        """`size`: the bytes of the client's body."""
        self.recording = recording
        self.line = line
        self.size = size
        self.body: JsonObject = {}
        self.requests: list[tuple[float, GenerateRequest]] = []
        self.answer: JsonObject | None = None
        self.closed_at = 0.0
        self.left_out = 0  #: batches in the middle that the tape does not hold
        self._first: list[tuple[float, Sequence[Chunk], Sequence[tuple[str, Any]]]] = []
        self._last: deque[tuple[float, Sequence[Chunk], Sequence[tuple[str, Any]]]] = deque()

    @property
    def batches(self) -> list[Batch]:
        return [Batch(*each) for each in (*self._first, *self._last)]

    def batch(self, chunks: Sequence[Chunk], events: Sequence[tuple[str, Any]]) -> None:
        """Called for each batch of a stream, so it is written for speed."""
        if len(self._first) < FIRST_BATCHES:
            if chunks or events:
                self._first.append((monotonic(), chunks, events))
        elif chunks or events:
            self._last.append((monotonic(), chunks, events))
            if len(self._last) > LAST_BATCHES:
                self._last.popleft()
                self.left_out += 1

    def client_request(self, body: JsonObject) -> None:
        self.body = body

    def gemini_request(self, request: GenerateRequest) -> None:
        self.requests.append((monotonic(), request))

    def client_answer(self, body: JsonObject) -> None:
        self.answer = body

    def close(self) -> None:
        self.closed_at = monotonic()

    def clear(self) -> None:
        """Release everything."""
        self.body, self.answer = {}, None
        self.requests.clear()
        self._first.clear()
        self._last.clear()
