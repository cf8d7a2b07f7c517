"""Base class of the upstreams that are called over HTTP: connections, credentials, refusals, streams.

An upstream provides the URLs and bodies of its calls, a function that decodes an answer, and its
`CredentialSource`. Exceptions of `requests` and urllib3 are translated here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from bridge.certificates import CaBundle
from bridge.errors import BridgeError, UpstreamMisconfigured
from bridge.gemini.types import Chunk, JsonObject
from bridge.settings import Settings, SettingsError, UpstreamRow
from bridge.upstream.auth.credentials import Credential, CredentialSource
from bridge.upstream.base import TICK, ChunkStream, Tick, Upstream, wait_for
from bridge.upstream.errors import error_from_payload, error_from_response
from bridge.upstream.masking import Mask
from bridge.upstream.payloads import objects_in
from bridge.upstream.transport.connection_pool import (
    OF_ENVIRONMENT,
    NetworkRoute,
    PoolPerProcess,
    UpstreamCall,
)
from bridge.upstream.transport.exception_map import GEMINI, foreign_errors_translated
from bridge.upstream.transport.http_response import HttpResponse, Timeouts

LARGEST_ERROR_BODY = 1 << 20
LARGEST_WHOLE_ANSWER = 16 << 20
LONGEST_UNARY_CALL = 30.0

#: Decodes the body of an answer to batches of chunks.
Decode = Callable[[Iterator[bytes], Mask], Iterator[Sequence[Chunk]]]


class AcceptedResponse(NamedTuple):
    response: HttpResponse
    mask: Mask  #: removes the secret from the response's payloads


class HttpUpstream(Upstream):
    def __init__(
        self,
        *,
        base_url: str,
        credentials: CredentialSource,
        timeouts: Timeouts,
        pool_size: int,
        route: NetworkRoute = OF_ENVIRONMENT,
        server: str = GEMINI,
    ) -> None:
        """`server` is the name of the server in errors."""
        self.home = base_url.rstrip("/")
        self.server = server
        self._credentials = credentials
        self._timeouts = timeouts
        self._connections = PoolPerProcess(self.home, pool_size, route, server)

    def _refusal(self, status: int, body: bytes, model: str, delay: float | None) -> BridgeError:
        """The error for a response with another status than 200."""
        return error_from_response(status, body, model, delay)

    def _error_in(self, payload: JsonObject, model: str) -> BridgeError | None:
        """The error in an answer whose status was 200, if the answer is one."""
        return error_from_payload(payload, model) if "error" in payload else None

    # --- calls ---------------------------------------------------------------------------------------

    def _post(self, path: str, body: bytes, timeouts: Timeouts, model: str = "") -> UpstreamCall:
        return UpstreamCall("POST", f"{self.home}{path}", timeouts, body, model)

    @property
    def _unary_timeouts(self) -> Timeouts:
        """For a call whose answer is not a stream: one limit for the whole call."""
        seconds = min(self._timeouts.between, LONGEST_UNARY_CALL)
        return replace(self._timeouts, first_byte=seconds, between=seconds, whole=seconds)

    def _fetch_object(self, call: UpstreamCall) -> JsonObject:
        """The JSON object of an answer that is not a stream."""
        responses: list[HttpResponse] = []
        try:
            response, mask = wait_for(self.accepted_response(call, responses.append))
            body = mask.in_body(b"".join(_limited(LARGEST_WHOLE_ANSWER, response.body())))
            fetched = objects_in(body, self.server)[0]
        finally:
            for each in responses:
                each.close()
        if (error := self._error_in(fetched, call.model)) is not None:
            raise error
        return fetched

    # --- sending -------------------------------------------------------------------------------------

    def accepted_response(
        self, call: UpstreamCall, on_response: Callable[[HttpResponse], None] = lambda _response: None
    ) -> Generator[Tick, None, AcceptedResponse]:
        """Send the call with one credential after another until the upstream answers 200.

        `on_response` gets each response before its head is read, so that another thread can close it.
        """
        refusal: BridgeError = UpstreamMisconfigured(f"The bridge has no credential for {self.server}.")
        quota = call.quota or call.model
        for credential in self._credentials.credentials(quota, call.conversation):
            if not isinstance(credential, Credential):
                yield credential
                continue
            response = self._send(call, credential)
            on_response(response)
            for _ in response.head():
                yield ()
            if response.status == 200:
                return AcceptedResponse(response, Mask(credential.secret, call.body))
            refusal = yield from self._read_refusal(response, call, credential)
            if not self._credentials.refused(credential, response.status, refusal, quota):
                break
        raise refusal

    def _send(self, call: UpstreamCall, credential: Credential) -> HttpResponse:
        with foreign_errors_translated(self.server):
            request = call.prepared(credential.headers)
            pool = self._connections.of_this_process()
        return pool.send(request, call.timeouts)

    def _read_refusal(
        self, response: HttpResponse, call: UpstreamCall, credential: Credential
    ) -> Generator[Tick, None, BridgeError]:
        pieces: list[bytes] = []
        with suppress(BridgeError):  # the status is enough if the body is incomplete
            for data in _limited(LARGEST_ERROR_BODY, response.body()):
                pieces.append(data)
                if not data:
                    yield ()
        response.close()
        if 300 <= response.status < 400 or (response.status == 404 and not call.model):
            # Another credential cannot help, so none is tried.
            raise UpstreamMisconfigured(
                f"{_without_userinfo(self.home)} answered {response.status}: it is not the {self.server} API."
            )
        body = Mask(credential.secret).in_body(b"".join(pieces))
        return self._refusal(response.status, body, call.model, response.retry_after)


def timeouts_of(row: UpstreamRow, settings: Settings) -> Timeouts:
    return Timeouts(
        row.connect_timeout,
        row.first_byte_timeout,
        row.read_timeout,
        row.answer_timeout,
        min(TICK, settings.server.heartbeat),
    )


def route_of(row: UpstreamRow) -> NetworkRoute:
    if row.ca is not None and (problem := CaBundle(str(row.ca), "ca").problem):
        raise SettingsError(
            f"{row.place}, and its ca {row.ca} {problem}: name a file or folder with CA certificates"
        )
    return NetworkRoute(row.proxy, str(row.ca) if row.ca is not None else "")


def quoted(name: str) -> str:
    """Percent-encode a name that the client chose, so that it stays one segment of the path."""
    return quote(name, safe="", errors="replace")


def _limited(limit: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    for data in pieces:
        yield data[:limit]
        limit -= len(data)
        if limit <= 0:
            return


def _without_userinfo(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class HttpStream(ChunkStream):
    def __init__(self, upstream: HttpUpstream, call: UpstreamCall, decode: Decode) -> None:
        self._upstream = upstream
        self._call = call
        self._decode = decode
        self._response: HttpResponse | None = None
        self._waited_before = 0.0  #: seconds spent on responses that refused the request
        self._closed = False

    @property
    def waited(self) -> float:  # type: ignore[override]
        return self._waited_before + (self._response.waited if self._response is not None else 0.0)

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        if self._closed:
            return
        try:
            response, mask = yield from self._upstream.accepted_response(self._call, self._use)
            yield from self._decode(response.body(), mask)
        except BridgeError:
            if not self._closed:  # closing the stream causes errors here
                raise
        finally:
            self.close()

    def _use(self, response: HttpResponse) -> None:
        self._waited_before = self.waited
        self._response = response
        if self._closed:
            response.close()

    def close(self) -> None:
        self._closed = True
        if self._response is not None:
            self._response.close()
