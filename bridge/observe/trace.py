"""Traces follow one request through its conversions. With DEBUG=1 one of them logs every step."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.gemini.wire import chunk_to_json, request_to_json

log = logging.getLogger("bridge.trace")


class Trace(Protocol):
    """Gets the values of each step. It must neither change them nor raise."""

    def client_request(self, body: JsonObject) -> None:
        """The body as the client sent it; a second call has it with its stored history."""

    def gemini_request(self, request: GenerateRequest) -> None:
        """Called for each model that the request is prepared for."""

    def batch(self, chunks: Sequence[Chunk], events: Sequence[tuple[str, object]]) -> None:
        """Chunks that came together, and the events that they caused. The last events have no chunks."""

    def client_answer(self, body: JsonObject) -> None:
        """The body of an answer that is not streamed."""


class LogTrace:
    """Logs every step. The lines contain prompts; the log masks keys."""

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id

    def _step(self, name: str, **shown: object) -> None:
        log.info(name, extra={"request_id": self._request_id, **shown})

    def client_request(self, body: JsonObject) -> None:
        self._step("client request", body=body)

    def gemini_request(self, request: GenerateRequest) -> None:
        self._step("gemini request", model=request.model, body=request_to_json(request))

    def batch(self, chunks: Sequence[Chunk], events: Sequence[tuple[str, object]]) -> None:
        for chunk in chunks:
            self._step("gemini chunk", chunk=chunk_to_json(chunk))
        for kind, data in events:
            self._step("client event", type=kind, data=data)

    def client_answer(self, body: JsonObject) -> None:
        self._step("client answer", body=body)


class BothTraces:
    def __init__(self, first: Trace, second: Trace) -> None:
        self._both = (first, second)

    def client_request(self, body: JsonObject) -> None:
        for trace in self._both:
            trace.client_request(body)

    def gemini_request(self, request: GenerateRequest) -> None:
        for trace in self._both:
            trace.gemini_request(request)

    def batch(self, chunks: Sequence[Chunk], events: Sequence[tuple[str, object]]) -> None:
        for trace in self._both:
            trace.batch(chunks, events)

    def client_answer(self, body: JsonObject) -> None:
        for trace in self._both:
            trace.client_answer(body)
