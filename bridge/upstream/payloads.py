"""Gemini's JSON as bytes, in both directions, for any upstream that speaks it. No IO happens here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from bridge.errors import BridgeError, InvalidRequest, UpstreamMalformed, UpstreamTruncated
from bridge.gemini.json_text import can_be_serialised
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.gemini.wire import chunk_from_json, request_to_json
from bridge.upstream.errors import error_from_payload
from bridge.upstream.masking import Mask
from bridge.upstream.transport.sse_decoder import SseDecoder

#: An answer is text and pictures. What is longer than all of them together is not one.
LARGEST_ANSWER = 256 << 20
#: A value may take ten times the memory of its JSON.
MOST_VALUES = 2_000_000

Unwrap = Callable[[dict[str, Any]], dict[str, Any]]


def request_bytes(request: GenerateRequest) -> bytes:
    return json_bytes(request_to_json(request))


def count_request_bytes(request: GenerateRequest) -> bytes:
    """The body of countTokens. Only in this form are the instruction and the tools counted."""
    request = replace(request, store=None)  # nothing is generated, so there is nothing to keep
    counted = {"model": f"models/{request.model.removeprefix('models/')}", **request_to_json(request)}
    return json_bytes({"generateContentRequest": counted})


def json_bytes(body: JsonObject) -> bytes:
    try:
        return orjson.dumps(body, default=_plain)
    except orjson.JSONEncodeError as error:
        reason = "it is nested too deeply" if "ecursion" in str(error) else str(error)
        raise InvalidRequest(f"The request cannot be sent to Gemini as JSON: {reason}.") from error


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def objects_in(payload: bytes) -> list[dict[str, Any]]:
    """The payload's object; several for an array, which Gemini sends where `alt=sse` got lost on the way."""
    try:
        return _objects(_parsed(payload))
    except orjson.JSONDecodeError:
        raise _no_json(payload, at_end=False) from None


def _objects(document: Any) -> list[dict[str, Any]]:
    objects = document if isinstance(document, list) else [document]
    if not objects or not all(isinstance(each, dict) for each in objects):
        raise UpstreamMalformed("Gemini sent JSON that is not an object.")
    return objects


def chunks_in(
    pieces: Iterable[bytes], model: str, mask: Mask, unwrap: Unwrap | None = None
) -> Iterator[Sequence[Chunk]]:
    """The bytes of one answer to batches of chunks: what one piece completed goes on together. An empty piece
    is an empty batch; a failure is raised after what came before it."""
    decoder, reader, left = SseDecoder(), _ChunkReader(model, mask, unwrap), LARGEST_ANSWER
    for data in pieces:
        left -= len(data)
        if left < 0:
            raise UpstreamMalformed("Gemini's answer is longer than any may be.")
        chunks = reader.read(decoder.feed(data)) if data else ()
        if chunks or not data:
            yield chunks
        if reader.failure is not None:
            raise reader.failure
    if chunks := reader.read(decoder.finish(), at_end=True):
        yield chunks
    if reader.failure is not None:
        raise reader.failure


class _ChunkReader:
    def __init__(self, model: str, mask: Mask, unwrap: Unwrap | None) -> None:
        self._model = model
        self._mask = mask
        self._unwrap = unwrap
        self.failure: BridgeError | None = None  #: what came behind the chunks that were given last

    def read(self, payloads: Iterable[bytes], at_end: bool = False) -> Sequence[Chunk]:
        chunks: list[Chunk] = []
        try:
            for payload in payloads:
                document = _parsed(self._mask(payload))
                for source in (document,) if type(document) is dict else _objects(document):
                    if "error" in source:
                        raise error_from_payload(self._mask.in_object(source), self._model)
                    chunks.append(chunk_from_json(source if self._unwrap is None else self._unwrap(source)))
        except orjson.JSONDecodeError:
            self.failure = _no_json(payload, at_end)
        except BridgeError as error:
            self.failure = error
        return chunks


def _parsed(payload: bytes) -> Any:
    brackets = payload.count(b"[") + payload.count(b"{")
    if len(payload) > MOST_VALUES and brackets + payload.count(b",") > MOST_VALUES:
        raise UpstreamMalformed("Gemini sent more values at once than any answer has.")
    parsed = orjson.loads(payload)
    if not can_be_serialised(parsed, brackets):  # to the client, in whichever shape
        raise UpstreamMalformed("Gemini sent an answer that is nested too deeply.")
    return parsed


def _no_json(payload: bytes, at_end: bool) -> BridgeError:
    if at_end and payload.startswith((b"{", b"[")):
        return UpstreamTruncated("Gemini's answer ended in the middle of a chunk.")
    return UpstreamMalformed("Gemini sent something that is not JSON.")
