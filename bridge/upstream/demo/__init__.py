"""The upstream when no key is set: the pretend Gemini server, played in-process.

What the server says passes through the same decoder and the same translation of errors as Gemini's own
answers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from bridge.errors import BridgeError, InvalidRequest, UpstreamMalformed, UpstreamTruncated
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.gemini.wire import chunk_from_json, request_to_json
from bridge.upstream.base import ChunkStream, Upstream
from bridge.upstream.demo import server
from bridge.upstream.demo.script import Reply
from bridge.upstream.errors import error_from_payload, error_from_response
from bridge.upstream.sse_decoder import SseDecoder

__all__ = ["DemoStream", "DemoUpstream"]


class DemoUpstream(Upstream):
    def __init__(self, pace: float = 1.0) -> None:
        """`pace` stretches the pauses between chunks; 0 means no waiting at all."""
        self._pace = pace

    def stream(self, request: GenerateRequest) -> ChunkStream:
        model = request.model.removeprefix("models/")
        reply = server.answer(model, _as_sent(request))
        if reply.status != 200:
            body = b"".join(item for item in reply.body if isinstance(item, bytes))
            raise error_from_response(reply.status, body, model)
        return DemoStream(reply, model, self._pace)

    def models(self) -> Sequence[JsonObject]:
        return server.models()


def _as_sent(request: GenerateRequest) -> JsonObject:
    """The body as it would arrive: through JSON, which not everything survives."""
    try:
        body: JsonObject = orjson.loads(orjson.dumps(request_to_json(request), default=dict))
    except orjson.JSONEncodeError as error:
        raise InvalidRequest(f"The request cannot be sent as JSON: {error}.") from error
    return body


class DemoStream(ChunkStream):
    def __init__(self, reply: Reply, model: str, pace: float) -> None:
        self._body = reply.body
        self._model = model
        self._pace = pace
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        decoder = SseDecoder()
        for data in self._arriving():
            yield from self._batches(decoder.feed(data))
        if not self._closed.is_set():
            yield from self._batches(decoder.finish())

    def close(self) -> None:
        self._closed.set()

    def _arriving(self) -> Iterator[bytes]:
        try:
            for item in self._body:
                if isinstance(item, float):
                    self._closed.wait(item * self._pace)
                if self._closed.is_set():
                    return
                if isinstance(item, bytes):
                    yield item
        except ConnectionResetError:
            raise UpstreamTruncated("The connection broke in the middle of the answer.") from None

    def _batches(self, payloads: Iterable[bytes]) -> Iterator[Sequence[Chunk]]:
        """One batch, or none; a failure is raised after what came before it."""
        chunks: list[Chunk] = []
        failure: BridgeError | None = None
        try:
            for payload in payloads:
                chunks.append(self._chunk(payload))  # noqa: PERF401 - what came before a failure is kept
        except BridgeError as error:
            failure = error
        if chunks:
            yield chunks
        if failure is not None:
            raise failure

    def _chunk(self, payload: bytes) -> Chunk:
        try:
            fields: dict[str, Any] = orjson.loads(payload)
        except orjson.JSONDecodeError:
            raise UpstreamMalformed("Gemini sent something that is not JSON.") from None
        if "error" in fields:
            raise error_from_payload(fields, self._model)
        return chunk_from_json(fields)
