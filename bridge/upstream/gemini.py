"""The Gemini API over REST: the only module that speaks HTTP to it. Foreign exceptions end here.

Requests are prepared here and handed straight to the transport adapter: `Session.request` would read the
environment and merge cookies for each call, at twice the CPU. Proxies and the CA bundle are read from the
environment once, by the same rules.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import requests.adapters

from bridge import __version__
from bridge.errors import (
    BridgeError,
    UpstreamMalformed,
    UpstreamMisconfigured,
    UpstreamRateLimited,
    UpstreamTimeout,
)
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.settings import Settings, SettingsError
from bridge.upstream.base import ChunkStream, Upstream
from bridge.upstream.errors import error_from_payload, error_from_response
from bridge.upstream.foreign import FOREIGN, foreign_errors_translated
from bridge.upstream.keys import KeyRing
from bridge.upstream.payloads import ChunkReader, count_request_bytes, json_bytes, objects_in, request_bytes
from bridge.upstream.silence import Listener

READ_SIZE = 65_536
MOST_AT_ONCE = 64
LARGEST_ERROR_BODY = 1 << 20
LARGEST_WHOLE_ANSWER = 16 << 20
MOST_MODEL_PAGES = 20
LONGEST_SHORT_CALL = 30.0
SHORTEST_SECRET = 8  #: a shorter "key" is a placeholder, and masking it would eat ordinary words


# --- the line to the API -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """One process's connections, and what its environment says about reaching the address."""

    adapter: requests.adapters.HTTPAdapter
    settings: Mapping[str, Any]  #: `proxies`, `verify`, `cert`, `stream`, as `send` takes them

    @classmethod
    def open(cls, address: str, pool_size: int) -> _Line:
        # The next key or the caller's retry is the answer to a failure; urllib3 must not repeat a request.
        adapter = requests.adapters.HTTPAdapter(pool_connections=1, pool_maxsize=pool_size, max_retries=0)
        with requests.Session() as session:
            settings = session.merge_environment_settings(address, {}, stream=True, verify=None, cert=None)
        return cls(adapter, settings)

    def send(self, request: requests.PreparedRequest, timeout: tuple[float, float]) -> requests.Response:
        return self.adapter.send(request, timeout=timeout, **self.settings)


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    url: str
    timeout: tuple[float, float]
    body: bytes | None = None
    model: str | None = None

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
        connect_timeout: float,
        read_timeout: float,
        key_cooldown: float,
        pool_size: int,
        heartbeat: float = 5.0,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._keys = KeyRing(map(str.strip, keys), key_cooldown)
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._pool_size = pool_size
        self._heartbeat = heartbeat
        self._lines: dict[int, _Line] = {}  #: by process id: two processes on one TLS connection garble it

    @classmethod
    def from_settings(cls, settings: Settings) -> GeminiUpstream:
        upstream = settings.upstream
        if not upstream.api_keys:
            raise SettingsError("upstream.transport is gemini, but there is no key: set GEMINI_API_KEY")
        return cls(
            base_url=upstream.base_url,
            keys=upstream.api_keys,
            connect_timeout=upstream.connect_timeout,
            read_timeout=upstream.read_timeout,
            key_cooldown=upstream.key_cooldown,
            pool_size=settings.server.threads,
            heartbeat=upstream.heartbeat,
        )

    def stream(self, request: GenerateRequest) -> ChunkStream:
        model = request.model.removeprefix("models/")
        call = _Call(
            "POST",
            f"{self._base_url}/v1beta/models/{_quoted(model)}:streamGenerateContent?alt=sse",
            (self._connect_timeout, self._read_timeout),
            request_bytes(request),
            model,
        )
        return GeminiStream(self._accepted(call), model, self._heartbeat, self._read_timeout)

    def count_tokens(self, request: GenerateRequest) -> int:
        model = request.model.removeprefix("models/")
        deadline = time.monotonic() + min(self._read_timeout, LONGEST_SHORT_CALL)
        call = _Call(
            "POST",
            f"{self._base_url}/v1beta/models/{_quoted(model)}:countTokens",
            (self._connect_timeout, deadline - time.monotonic()),
            count_request_bytes(request),
            model,
        )
        total = self._whole(call, deadline).get("totalTokens")
        if not isinstance(total, int):
            raise UpstreamMalformed("Gemini counted no tokens.")
        return total

    def short_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        deadline = time.monotonic() + min(self._read_timeout, LONGEST_SHORT_CALL)
        call = _Call(
            "POST",
            f"{self._base_url}/v1beta/models/{_quoted(model)}:{method}",
            (self._connect_timeout, deadline - time.monotonic()),
            json_bytes(body),
            model,
        )
        return self._whole(call, deadline)

    def models(self) -> Sequence[JsonObject]:
        deadline = time.monotonic() + min(self._read_timeout, LONGEST_SHORT_CALL)
        found: list[JsonObject] = []
        token: str | None = ""
        for _ in range(MOST_MODEL_PAGES):
            page = self._model_page(token, deadline)
            found.extend(_able_to_generate(page.get("models")))
            if not (token := page.get("nextPageToken")):
                break
        return tuple(found)

    def _model_page(self, token: str | None, deadline: float) -> JsonObject:
        left = deadline - time.monotonic()
        if left <= 0:
            raise UpstreamTimeout("Gemini did not list its models in time.")
        query = {"pageSize": "1000"} | ({"pageToken": token} if token else {})
        call = _Call(
            "GET",
            f"{self._base_url}/v1beta/models?{urlencode(query)}",
            (min(self._connect_timeout, left), left),
        )
        return self._whole(call, deadline)

    def _whole(self, call: _Call, deadline: float) -> JsonObject:
        """The object of an answer that is not a stream."""
        response = self._accepted(call)
        try:
            with foreign_errors_translated():
                body = b"".join(_pieces(response, LARGEST_WHOLE_ANSWER, deadline))
        finally:
            response.close()
        answer = objects_in(body)[0]
        if "error" in answer:
            raise error_from_payload(answer, call.model or "")
        return answer

    # --- sending -------------------------------------------------------------------------------------

    def _accepted(self, call: _Call) -> requests.Response:
        """The answer's head, once some key was accepted."""
        refusal: BridgeError = UpstreamMisconfigured("The bridge has no Gemini key.")
        for key in self._keys.available(call.model):
            response = self._sent(call, key)
            if response.status_code == 200:
                return response
            refusal = self._refusal(response, call, key)
            if not isinstance(refusal, UpstreamRateLimited | UpstreamMisconfigured):
                break
            limited = isinstance(refusal, UpstreamRateLimited)
            self._keys.rest(key, refusal.retry_after, call.model if limited else None)
        raise refusal

    def _sent(self, call: _Call, key: str) -> requests.Response:
        with foreign_errors_translated():
            prepared = call.prepared(key)  # first, as it finds out whether the address can be used
            return self._line().send(prepared, call.timeout)

    def _line(self) -> _Line:
        process = os.getpid()
        line = self._lines.get(process)
        return line or self._lines.setdefault(process, _Line.open(self._base_url, self._pool_size))

    def _refusal(self, response: requests.Response, call: _Call, key: str) -> BridgeError:
        status, body = response.status_code, _error_body(response)
        if 300 <= status < 400 or (status == 404 and call.model is None):
            # No key would mend this, so it is raised past the rotation.
            raise UpstreamMisconfigured(
                f"{_shown(self._base_url)} answered {status}: it is not the Gemini API."
            )
        if len(key) >= SHORTEST_SECRET:
            body = body.replace(key.encode(), b"[key]")
        return error_from_response(status, body, call.model or "")


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


# --- reading -----------------------------------------------------------------------------------------


def _read(response: requests.Response) -> bytes:
    """What is there, at least one byte; nothing at the end. urllib3 then has the connection in its pool."""
    return response.raw.read1(READ_SIZE, decode_content=True) or b""


def _pieces(response: requests.Response, limit: int, deadline: float = float("inf")) -> Iterator[bytes]:
    while limit > 0 and (data := _read(response)):
        yield data[:limit]
        limit -= len(data)
        if time.monotonic() > deadline:
            raise UpstreamTimeout("Gemini did not answer in time.")


def _error_body(response: requests.Response) -> bytes:
    """As much of the body as could be had: the status alone says enough."""
    pieces: list[bytes] = []
    with suppress(*FOREIGN):
        pieces.extend(_pieces(response, LARGEST_ERROR_BODY))
    response.close()
    return b"".join(pieces)


class GeminiStream(ChunkStream):
    def __init__(self, response: requests.Response, model: str, heartbeat: float, patience: float) -> None:
        self._response = response
        self._listener = Listener(response)
        self._reader = ChunkReader(model)
        self._heartbeat = heartbeat
        self._patience = patience
        self._failure: BridgeError | None = None
        self._closed = False

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        try:
            yield from self._silence()
            while data := self._arrived():
                yield from self._reader.feed(data)
                if self._failure is not None:
                    raise self._failure
                yield from self._silence()
            if not self._closed:
                yield from self._reader.finish()
        finally:
            self.close()

    def _silence(self) -> Iterator[Sequence[Chunk]]:
        """An empty batch for every heartbeat in which nothing comes."""
        patience = self._patience
        while not self._closed and not self._hears(min(self._heartbeat, patience)):
            patience -= self._heartbeat
            if patience <= 0:
                raise UpstreamTimeout("Gemini fell silent in the middle of the answer.")
            yield ()

    def _hears(self, seconds: float) -> bool:
        with foreign_errors_translated():
            return self._listener.hears(seconds)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # Another thread may be waiting in a read: closing would wait for it, a shutdown wakes it.
        with suppress(OSError, RuntimeError, ValueError):
            self._response.raw.shutdown()
        self._response.close()

    def _arrived(self) -> bytes:
        """All that is here: a read gives one frame of a chunked body at most, and often several have come."""
        pieces = [self._next_bytes()]
        try:
            while pieces[-1] and len(pieces) < MOST_AT_ONCE and self._listener.has_more():
                pieces.append(self._next_bytes())
        except BridgeError as failure:
            self._failure = failure  # what came before it is handed on first
        return b"".join(pieces)

    def _next_bytes(self) -> bytes:
        try:
            with foreign_errors_translated():
                return b"" if self._closed else _read(self._response)
        except Exception:
            if self._closed:  # closed under the read: whatever it ran into is what was wanted
                return b""
            raise
