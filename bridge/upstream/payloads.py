"""Encodes requests as Gemini's JSON and decodes its answers. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import orjson

from bridge.errors import BridgeError, InvalidRequest, UpstreamMalformed, UpstreamTruncated
from bridge.gemini.json_text import can_be_serialised
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.gemini.wire import chunk_from_json, request_to_json
from bridge.upstream.errors import error_from_payload
from bridge.upstream.masking import Mask
from bridge.upstream.transport.exception_map import GEMINI
from bridge.upstream.transport.sse_decoder import FIELD, SseDecoder

#: More bytes than the texts and pictures of the largest answer.
LARGEST_ANSWER = 256 << 20
#: A parsed value can take ten times the memory of its JSON, so the number of values has a limit.
MOST_VALUES = 2_000_000

Unwrap = Callable[[dict[str, Any]], dict[str, Any]]


def request_bytes(request: GenerateRequest) -> bytes:
    return json_bytes(request_to_json(request))


def count_request_bytes(request: GenerateRequest) -> bytes:
    """The body of countTokens, in the only form that counts the instruction and the tools."""
    request = replace(request, store=None)  # countTokens has no `store`: it generates nothing
    counted = {"model": f"models/{request.model.removeprefix('models/')}", **request_to_json(request)}
    return json_bytes({"generateContentRequest": counted})


def json_bytes(body: JsonObject, server: str = GEMINI) -> bytes:
    try:
        return orjson.dumps(body, default=_as_dict)
    except orjson.JSONEncodeError as error:
        reason = "it is nested too deeply" if "ecursion" in str(error) else str(error)
        raise InvalidRequest(f"The request cannot be sent to {server} as JSON: {reason}.") from error


def _as_dict(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


class PayloadDecoder(Protocol):
    """Splits the bytes of an answer into payloads."""

    def feed(self, data: bytes) -> list[bytes]: ...

    def finish(self) -> list[bytes]: ...


class PayloadReader(Protocol):
    """Reads the chunks in payloads."""

    failure: BridgeError | None  #: the error that followed the last chunks
    complete: bool  #: the answer has ended, so the rest of the body holds nothing more

    def read(self, payloads: Iterable[bytes], at_end: bool = False) -> Sequence[Chunk]: ...


def objects_in(payload: bytes, server: str = GEMINI) -> list[dict[str, Any]]:
    """The payload's object, or the objects of its array: without `alt=sse` Gemini sends an array."""
    try:
        return objects_of(parsed(payload, server), server)
    except orjson.JSONDecodeError:
        raise not_json(payload, server, at_end=False) from None


def objects_of(document: Any, server: str) -> list[dict[str, Any]]:
    items = document if type(document) is list else [document]
    if not items or not all(type(item) is dict for item in items):
        raise UpstreamMalformed(f"{server} sent JSON that is not an object.")
    return items


def chunks_in(
    pieces: Iterable[bytes], model: str, mask: Mask, unwrap: Unwrap | None = None
) -> Iterator[Sequence[Chunk]]:
    """Decode the body of one of Gemini's answers."""
    return decoded(pieces, SseDecoder(), _ChunkReader(model, mask, unwrap), GEMINI)


def decoded(
    pieces: Iterable[bytes], decoder: PayloadDecoder, reader: PayloadReader, server: str
) -> Iterator[Sequence[Chunk]]:
    """Decode the body of one answer; each batch holds the chunks that one piece of bytes completed.

    An empty piece becomes an empty batch. An error is raised after the chunks that came before it.
    """
    left = LARGEST_ANSWER
    for data in pieces:
        left -= len(data)
        if left < 0:
            raise UpstreamMalformed(f"The answer of {server} is longer than the bridge allows.")
        chunks = reader.read(decoder.feed(data)) if data else ()
        if chunks or not data:
            yield chunks
        if reader.failure is not None:
            raise reader.failure
        if reader.complete and not data:
            return  # the server keeps the connection open after the end
    if chunks := reader.read(decoder.finish(), at_end=True):
        yield chunks
    if reader.failure is not None:
        raise reader.failure


class _ChunkReader:
    complete = False  #: only the end of the body ends an answer

    def __init__(self, model: str, mask: Mask, unwrap: Unwrap | None) -> None:
        self._model = model
        self._mask = mask
        self._unwrap = unwrap
        self.failure: BridgeError | None = None

    def read(self, payloads: Iterable[bytes], at_end: bool = False) -> Sequence[Chunk]:
        chunks: list[Chunk] = []
        try:
            for payload in payloads:
                document = parsed(self._mask(payload), GEMINI)
                for source in (document,) if type(document) is dict else objects_of(document, GEMINI):
                    if "error" in source:
                        raise error_from_payload(self._mask.in_object(source), self._model)
                    chunks.append(chunk_from_json(source if self._unwrap is None else self._unwrap(source)))
        except orjson.JSONDecodeError:
            self.failure = not_json(payload, GEMINI, at_end)
        except BridgeError as error:
            self.failure = error
        return chunks


def parsed(payload: bytes, server: str) -> Any:
    brackets = payload.count(b"[") + payload.count(b"{")
    if len(payload) > MOST_VALUES and brackets + payload.count(b",") > MOST_VALUES:
        raise UpstreamMalformed(f"{server} sent more values in one event than the bridge allows.")
    document = orjson.loads(payload)
    if not can_be_serialised(document, brackets):  # no protocol could encode it
        raise UpstreamMalformed(f"{server} sent an answer that is nested too deeply.")
    return document


def not_json(payload: bytes, server: str, at_end: bool) -> BridgeError:
    if at_end and (payload.startswith((b"{", b"[")) or FIELD.startswith(payload)):
        return UpstreamTruncated(f"The answer of {server} ended in the middle of a chunk.")
    return UpstreamMalformed(f"{server} sent data that is not JSON.")
