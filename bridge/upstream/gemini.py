"""The Gemini API over REST: the only module that speaks HTTP to it. Foreign exceptions end here.

Requests are prepared here and handed straight to the transport adapter: `Session.request` would read the
environment and merge cookies for each call, at twice the CPU. Proxies and the CA bundle are read from the
environment once, by the same rules.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import requests

from bridge import __version__
from bridge.cooldowns import Cooldowns, LocalCooldowns
from bridge.errors import (
    LONGEST_RETRY_AFTER,
    BridgeError,
    UpstreamMalformed,
    UpstreamMisconfigured,
    UpstreamRateLimited,
)
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.settings import Settings, SettingsError
from bridge.upstream.answer import Answer, Waits, answer_to
from bridge.upstream.base import TICK, ChunkStream, Upstream
from bridge.upstream.errors import error_from_payload, error_from_response
from bridge.upstream.foreign import foreign_errors_translated
from bridge.upstream.keys import KeyRing
from bridge.upstream.payloads import ChunkReader, count_request_bytes, json_bytes, objects_in, request_bytes
from bridge.upstream.promises import PromisingAdapter

LARGEST_ERROR_BODY = 1 << 20
LARGEST_WHOLE_ANSWER = 16 << 20
MOST_MODEL_PAGES = 20
LONGEST_SHORT_CALL = 30.0
Tick = tuple[()]  #: nothing came for a while: the reader's chance to look after other things
SHORTEST_SECRET = 8  #: a shorter "key" is a placeholder, and masking it would eat ordinary words


# --- the line to the API -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """One process's connections, and what its environment says about reaching the address."""

    adapter: PromisingAdapter
    settings: Mapping[str, Any]  #: `proxies`, `verify`, `cert`, `stream`, as `send` takes them

    @classmethod
    def open(cls, address: str, pool_size: int) -> _Line:
        # Whoever asked decides about a second try; urllib3 must not repeat a request.
        adapter = PromisingAdapter(pool_connections=1, pool_maxsize=pool_size, max_retries=0)
        with requests.Session() as session:
            settings = session.merge_environment_settings(address, {}, stream=True, verify=None, cert=None)
        return cls(adapter, settings)

    def send(self, request: requests.PreparedRequest, waits: Waits) -> Answer:
        timeout = (waits.connect, waits.first_byte)
        return answer_to(self.adapter.send(request, timeout=timeout, **self.settings), waits)


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    url: str
    waits: Waits
    body: bytes | None = None
    model: str = ""

    def prepared(self, key: str) -> requests.PreparedRequest:
        headers = {
            "x-goog-api-key": key,  # never `?key=`: addresses end up in logs
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",  # compression would hold back what is there to be shown
            "User-Agent": f"gemini-bridge/{__version__}",
        }
        return requests.Request(self.method, self.url, headers=headers, data=self.body).prepare()


class GeminiUpstream(Upstream):
    def __init__(
        self,
        *,
        base_url: str,
        keys: tuple[str, ...],
        waits: Waits,
        key_cooldown: float,
        pool_size: int,
        cooldowns: Cooldowns | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._keys = KeyRing(map(str.strip, keys), key_cooldown, cooldowns or LocalCooldowns())
        self._waits = waits
        self._pool_size = pool_size
        self._lines: dict[int, _Line] = {}  #: by process id: two processes on one TLS connection garble it

    @classmethod
    def from_settings(cls, settings: Settings, cooldowns: Cooldowns) -> GeminiUpstream:
        upstream = settings.upstream
        if not upstream.api_keys:
            raise SettingsError("upstream.transport is gemini, but there is no key: set GEMINI_API_KEY")
        return cls(
            base_url=upstream.base_url,
            keys=upstream.api_keys,
            waits=Waits(
                upstream.connect_timeout,
                upstream.first_byte_timeout,
                upstream.read_timeout,
                upstream.answer_timeout,
                min(TICK, settings.server.heartbeat),
            ),
            key_cooldown=upstream.key_cooldown,
            pool_size=settings.server.threads,
            cooldowns=cooldowns,
        )

    def stream(self, request: GenerateRequest) -> ChunkStream:
        call = self._model_call(
            request.model, "streamGenerateContent?alt=sse", request_bytes(request), self._waits
        )
        return GeminiStream(self, call)

    def count_tokens(self, request: GenerateRequest) -> int:
        call = self._model_call(
            request.model, "countTokens", count_request_bytes(request), self._short(LONGEST_SHORT_CALL)
        )
        total = self._whole(call).get("totalTokens")
        if not isinstance(total, int):
            raise UpstreamMalformed("Gemini counted no tokens.")
        return total

    def short_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        return self._whole(self._model_call(model, method, json_bytes(body), self._short(LONGEST_SHORT_CALL)))

    def _model_call(self, model: str, method: str, body: bytes, waits: Waits) -> _Call:
        model = model.removeprefix("models/")
        url = f"{self._base_url}/v1beta/models/{_quoted(model)}:{method}"
        return _Call("POST", url, waits, body, model)

    def _short(self, seconds: float) -> Waits:
        """For a call whose answer is not a stream: so long for all of it."""
        seconds = min(self._waits.between, seconds)
        return replace(self._waits, first_byte=seconds, between=seconds, whole=seconds)

    def models(self) -> Sequence[JsonObject]:
        found: list[JsonObject] = []
        query = {"pageSize": "1000"}
        for _ in range(MOST_MODEL_PAGES):
            page = self._whole(
                _Call(
                    "GET",
                    f"{self._base_url}/v1beta/models?{urlencode(query)}",
                    self._short(LONGEST_SHORT_CALL),
                )
            )
            found.extend(_able_to_generate(page.get("models")))
            if not (token := page.get("nextPageToken")):
                break
            query["pageToken"] = token
        return tuple(found)

    def _whole(self, call: _Call) -> JsonObject:
        """The object of an answer that is not a stream."""
        answer = _outcome(self.accepted(call))
        try:
            answered = objects_in(b"".join(_at_most(LARGEST_WHOLE_ANSWER, answer.body())))[0]
        finally:
            answer.close()
        if "error" in answered:
            raise error_from_payload(answered, call.model)
        return answered

    # --- sending -------------------------------------------------------------------------------------

    def accepted(
        self, call: _Call, began: Callable[[Answer], None] = lambda _answer: None
    ) -> Generator[Tick, None, Answer]:
        """The answer, once some key was accepted and its head has come. Each answer is shown to `began`
        before it is waited for, so that it can be closed meanwhile."""
        if wait := self._keys.told_to_wait(call.model):
            raise UpstreamRateLimited("Gemini's quota for this model is used up for now.", retry_after=wait)
        refusal: BridgeError = UpstreamMisconfigured("The bridge has no Gemini key.")
        for key in self._keys.available(call.model):
            answer = self._sent(call, key)
            began(answer)
            for _ in answer.head():
                yield ()
            if answer.status == 200:
                return answer
            refusal = yield from self._refusal(answer, call, key)
            if not isinstance(refusal, UpstreamRateLimited | UpstreamMisconfigured):
                break
            self._rest(key, refusal, call.model)
        raise refusal

    def _rest(self, key: str, refusal: BridgeError, model: str) -> None:
        if isinstance(refusal, UpstreamRateLimited):
            told = refusal.retry_after
            self._keys.rest(key, None if told is None else min(told, LONGEST_RETRY_AFTER), model)
        else:
            self._keys.rest(key)

    def _sent(self, call: _Call, key: str) -> Answer:
        with foreign_errors_translated():
            prepared = call.prepared(key)  # first, as it finds out whether the address can be used
            return self._line().send(prepared, call.waits)

    def _line(self) -> _Line:
        process = os.getpid()
        line = self._lines.get(process)
        return line or self._lines.setdefault(process, _Line.open(self._base_url, self._pool_size))

    def _refusal(self, answer: Answer, call: _Call, key: str) -> Generator[Tick, None, BridgeError]:
        pieces: list[bytes] = []
        with suppress(BridgeError):  # as much as could be had: the status alone says enough
            for data in _at_most(LARGEST_ERROR_BODY, answer.body()):
                pieces.append(data)
                if not data:
                    yield ()
        answer.close()
        if 300 <= answer.status < 400 or (answer.status == 404 and not call.model):
            # No key would mend this, so it is raised past the rotation.
            raise UpstreamMisconfigured(
                f"{_shown(self._base_url)} answered {answer.status}: it is not the Gemini API."
            )
        body = b"".join(pieces)
        if len(key) >= SHORTEST_SECRET:
            body = body.replace(key.encode(), b"[key]")
        return error_from_response(answer.status, body, call.model)


def _outcome(waiting: Generator[Tick, None, Answer]) -> Answer:
    """What is waited for, by somebody who has nothing else to do."""
    while True:
        try:
            next(waiting)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


def _at_most(limit: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    for data in pieces:
        yield data[:limit]
        limit -= len(data)
        if limit <= 0:
            return


def _shown(address: str) -> str:
    """The address without the user and password it may hold."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _quoted(model: str) -> str:
    """The client chooses the name; it must stay one segment of the path."""
    return quote(model, safe="", errors="replace")


def _able_to_generate(models: Any) -> list[JsonObject]:
    listed = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return [model for model in listed if "generateContent" in _methods(model)]


def _methods(model: JsonObject) -> Sequence[str]:
    methods = model.get("supportedGenerationMethods")
    return methods if isinstance(methods, list) else ()


class GeminiStream(ChunkStream):
    def __init__(self, upstream: GeminiUpstream, call: _Call) -> None:
        self._upstream = upstream
        self._call = call
        self._answer: Answer | None = None
        self._closed = False

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        if self._closed:
            return
        try:
            yield from self._chunks()
        finally:
            self.close()

    def _chunks(self) -> Iterator[Sequence[Chunk]]:
        try:
            answer = yield from self._upstream.accepted(self._call, self._take)
        except BridgeError:
            if self._closed:  # meanwhile: whatever it ran into is what was wanted
                return
            raise
        reader = ChunkReader(self._call.model)
        for data in answer.body():
            if data:
                yield from reader.feed(data)
            else:
                yield ()
        if not self._closed:
            yield from reader.finish()

    def _take(self, answer: Answer) -> None:
        self._answer = answer
        if self._closed:
            answer.close()

    def close(self) -> None:
        self._closed = True
        if self._answer is not None:
            self._answer.close()
