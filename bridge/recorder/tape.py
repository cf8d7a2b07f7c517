"""The tape of one request. It only appends references to values that exist anyway; nothing is serialised
before the request has ended and is kept."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from bridge.gemini.types import Chunk, GenerateRequest, JsonObject

T = TypeVar("T")

#: Batches at the beginning of a stream that a tape holds, and as many at its end. It counts those between.
MOST_BATCHES = 64


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


class Batches(Generic[T]):
    __slots__ = ("_first", "_last", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: list[tuple[float, Sequence[T]]] = []
        self._last: deque[tuple[float, Sequence[T]]] = deque(maxlen=MOST_BATCHES)

    def add(self, batch: Sequence[T]) -> None:
        if not batch:
            return
        self.count += 1
        (self._first if self.count <= MOST_BATCHES else self._last).append((time.monotonic(), batch))

    @property
    def left_out(self) -> int:
        """Batches in the middle that the tape does not hold."""
        return self.count - len(self._first) - len(self._last)

    @property
    def first(self) -> list[tuple[float, Sequence[T]]]:
        return self._first

    @property
    def last(self) -> deque[tuple[float, Sequence[T]]]:
        return self._last

    @property
    def times(self) -> tuple[float, float] | None:
        """When the first and the last batch came."""
        batches = [*self._first[:1], *self._first[-1:], *list(self._last)[-1:]]
        return (batches[0][0], batches[-1][0]) if batches else None

    def __iter__(self) -> Iterator[tuple[float, T]]:
        for moment, batch in (*self._first, *self._last):
            for item in batch:
                yield moment, item


class Tape:
    """An implementation of `bridge.observe.trace.Trace`."""

    def __init__(self, recording: Recording, line: RequestLine, size: int) -> None:
        """`size`: the bytes of the client's body."""
        self.recording = recording
        self.line = line
        self.size = size
        self.body: JsonObject = {}
        self.requests: list[tuple[float, GenerateRequest]] = []
        self.batches: Batches[Chunk] = Batches()
        self.answered: Batches[tuple[str, Any]] = Batches()
        self.answer: JsonObject | None = None
        self.closed_at = 0.0
        # One call less for each batch.
        self.chunks = self.batches.add
        self.events = self.answered.add

    def client_request(self, body: JsonObject) -> None:
        self.body = body

    def gemini_request(self, request: GenerateRequest) -> None:
        self.requests.append((time.monotonic(), request))

    def client_answer(self, body: JsonObject) -> None:
        self.answer = body

    def close(self) -> None:
        self.closed_at = time.monotonic()

    def clear(self) -> None:
        """Release everything."""
        self.body, self.answer = {}, None
        self.requests.clear()
        for batches in (self.batches, self.answered):
            batches.first.clear()
            batches.last.clear()
