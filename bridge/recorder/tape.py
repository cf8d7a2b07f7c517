"""The tape of one request. It only appends references to values that exist anyway; nothing is serialised
before the request has ended and is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from time import monotonic
from typing import Any, NamedTuple

from bridge.gemini.types import Chunk, GenerateRequest, JsonObject

#: Batches at the beginning of a stream that a tape holds, and as many at its end. It counts those between. A
#: batch that is held costs memory and 2 µs, so a tape that is probably not kept holds few.
MOST_BATCHES = 256
MOST_ON_ERROR = 16


AddBatch = Callable[[Sequence[Chunk], Sequence[tuple[str, Any]]], None]


class Recording(NamedTuple):
    """Whether and how a request is recorded. `reason` is empty if it is kept only after a failure."""

    level: str
    reason: str = ""

    @property
    def most_batches(self) -> int:
        return MOST_BATCHES if self.reason else MOST_ON_ERROR

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


_Timed = tuple[float, Sequence[Chunk], Sequence[tuple[str, Any]]]


def _appending(first: list[_Timed], most: int, last: deque[_Timed], later: Iterator[int]) -> AddBatch:
    """A function that is called for each batch of a stream; local names are faster than attributes."""
    add_first, add_last, count_later = first.append, last.append, later.__next__

    def add(chunks: Sequence[Chunk], events: Sequence[tuple[str, Any]]) -> None:
        if chunks or events:
            if len(first) < most:
                add_first((monotonic(), chunks, events))
            else:
                add_last((monotonic(), chunks, events))
                count_later()

    return add


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
        self._first: list[_Timed] = []
        self._last: deque[_Timed] = deque(maxlen=recording.most_batches)
        self._later = count()
        self.batch = _appending(self._first, recording.most_batches, self._last, self._later)

    @property
    def batches(self) -> list[Batch]:
        return [Batch(*each) for each in (*self._first, *self._last)]

    def client_request(self, body: JsonObject) -> None:
        self.body = body

    def gemini_request(self, request: GenerateRequest) -> None:
        self.requests.append((monotonic(), request))

    def client_answer(self, body: JsonObject) -> None:
        self.answer = body

    def close(self) -> None:
        self.closed_at = monotonic()
        self.left_out = max(0, next(self._later) - self.recording.most_batches)

    def clear(self) -> None:
        """Release everything."""
        self.body, self.answer = {}, None
        self.requests.clear()
        self._first.clear()
        self._last.clear()
