"""The upstream without an API key: a simulated Gemini server in the same process.

Its answers pass the same decoder and the same error translation as Gemini's answers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import orjson

from bridge.errors import BridgeError, UpstreamTruncated
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.settings import Settings, UpstreamRow
from bridge.upstream.base import TICK, ChunkStream, Upstream
from bridge.upstream.cooldowns import Cooldowns
from bridge.upstream.demo import embeddings, server
from bridge.upstream.demo.script import Reply
from bridge.upstream.errors import error_from_response
from bridge.upstream.masking import Mask
from bridge.upstream.payloads import chunks_in, request_bytes

__all__ = ["DemoStream", "DemoUpstream"]


class DemoUpstream(Upstream):
    def __init__(self, pace: float = 1.0, tick: float = TICK) -> None:
        """`pace` multiplies the pauses between chunks; 0 removes them."""
        self._pace = pace
        self._tick = tick

    @classmethod
    def from_row(cls, _row: UpstreamRow, settings: Settings, _cooldowns: Cooldowns) -> DemoUpstream:
        return cls(tick=min(TICK, settings.server.heartbeat))

    def stream(self, request: GenerateRequest) -> ChunkStream:
        model = request.model.removeprefix("models/")
        reply = server.answer(model, orjson.loads(request_bytes(request)))
        return DemoStream(reply, model, self._pace, self._tick)

    def count_tokens(self, request: GenerateRequest) -> int:
        return server.count_tokens(request.model, orjson.loads(request_bytes(request)))

    def unary_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        return embeddings.answer(method, body)

    def models(self) -> Sequence[JsonObject]:
        return server.models()


class DemoStream(ChunkStream):
    def __init__(self, reply: Reply, model: str, pace: float, tick: float) -> None:
        self._status = reply.status
        self._body = reply.body
        self._model = model
        self._pace = pace
        self._tick = tick
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        if self._status != 200:
            body = b"".join(item for item in self._body if isinstance(item, bytes))
            raise error_from_response(self._status, body, self._model)
        try:
            yield from chunks_in(self._arriving(), self._model, Mask())
        except BridgeError:
            if not self._closed.is_set():
                raise

    def close(self) -> None:
        self._closed.set()

    def _pause(self, seconds: float) -> Iterator[bytes]:
        """Wait; yields an empty piece at every tick of a long pause."""
        self.waited += seconds
        while seconds > self._tick and not self._closed.wait(self._tick):
            seconds -= self._tick
            yield b""
        self._closed.wait(seconds)

    def _arriving(self) -> Iterator[bytes]:
        try:
            for item in self._body:
                if isinstance(item, float):
                    yield from self._pause(item * self._pace)
                if self._closed.is_set():
                    return
                if isinstance(item, bytes):
                    yield item
        except ConnectionResetError:
            raise UpstreamTruncated("The connection broke in the middle of the answer.") from None
