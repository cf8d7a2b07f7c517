"""Logs every step of a conversion, with DEBUG=1. The lines contain prompts; the log masks keys."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.gemini.wire import chunk_to_json, request_to_json

log = logging.getLogger("bridge.trace")


class Trace:
    def __init__(self, request_id: str) -> None:
        self._request_id = request_id

    def _step(self, name: str, **shown: object) -> None:
        log.info(name, extra={"request_id": self._request_id, **shown})

    def client_request(self, body: JsonObject) -> None:
        self._step("client request", body=body)

    def gemini_request(self, request: GenerateRequest) -> None:
        self._step("gemini request", model=request.model, body=request_to_json(request))

    def chunks(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self._step("gemini chunk", chunk=chunk_to_json(chunk))

    def events(self, events: Sequence[tuple[str, object]]) -> None:
        for kind, data in events:
            self._step("client event", type=kind, data=data)

    def client_answer(self, body: JsonObject) -> None:
        self._step("client answer", body=body)
