"""Gemini's API over REST, wherever it is served: what the upstreams that speak it have in common.

Each of them gives the addresses and bodies of its calls, says how its answers are wrapped, and brings the
`CredentialSource` that opens its door. Foreign exceptions end here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from bridge.errors import BridgeError, UpstreamMalformed, UpstreamMisconfigured
from bridge.gemini.service_tier import FLEX
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.settings import Settings
from bridge.upstream.auth.credentials import Credential, CredentialSource
from bridge.upstream.base import TICK, ChunkStream, Tick, Upstream
from bridge.upstream.errors import error_from_payload, error_from_response
from bridge.upstream.masking import Mask
from bridge.upstream.payloads import Unwrap, chunks_in, objects_in
from bridge.upstream.transport.connection_pool import PoolPerProcess, UpstreamCall
from bridge.upstream.transport.exception_map import foreign_errors_translated
from bridge.upstream.transport.http_response import HttpResponse, Timeouts

LARGEST_ERROR_BODY = 1 << 20
LARGEST_WHOLE_ANSWER = 16 << 20
MOST_MODEL_PAGES = 20
LONGEST_SHORT_CALL = 30.0

T = TypeVar("T")


class Accepted(NamedTuple):
    answer: HttpResponse
    mask: Mask  #: for all that is read of it


class RestUpstream(Upstream):
    def __init__(
        self,
        *,
        base_url: str,
        access: CredentialSource,
        timeouts: Timeouts,
        pool_size: int,
        unwrap: Unwrap | None = None,
    ) -> None:
        """`unwrap` takes a chunk out of what an answer wraps around it; None where it stands bare."""
        self.unwrap = unwrap
        self.home = base_url.rstrip("/")
        self._credentials = access
        self._timeouts = timeouts
        self._connections = PoolPerProcess(self.home, pool_size)

    @abstractmethod
    def _stream_call(self, request: GenerateRequest) -> UpstreamCall: ...

    @abstractmethod
    def _count_call(self, request: GenerateRequest) -> UpstreamCall: ...

    def stream(self, request: GenerateRequest) -> ChunkStream:
        call = replace(self._stream_call(request), conversation=request.conversation)
        return RestStream(self, _at_leisure(call) if request.service_tier == FLEX else call)

    def count_tokens(self, request: GenerateRequest) -> int:
        total = self._whole(self._count_call(request)).get("totalTokens")
        if not isinstance(total, int):
            raise UpstreamMalformed("Gemini counted no tokens.")
        return total

    # --- calls ---------------------------------------------------------------------------------------

    def _post(self, path: str, body: bytes, timeouts: Timeouts, model: str = "") -> UpstreamCall:
        return UpstreamCall("POST", f"{self.home}{path}", timeouts, body, model)

    @property
    def _short(self) -> Timeouts:
        """For a call whose answer is not a stream: so long for all of it."""
        seconds = min(self._timeouts.between, LONGEST_SHORT_CALL)
        return replace(self._timeouts, first_byte=seconds, between=seconds, whole=seconds)

    def _pages(self, path: str, size: int) -> Iterator[JsonObject]:
        """The pages of a list, as many as there may be."""
        query = {"pageSize": str(size)}
        for _ in range(MOST_MODEL_PAGES):
            page = self._whole(UpstreamCall("GET", f"{self.home}{path}?{urlencode(query)}", self._short))
            yield page
            if not (token := page.get("nextPageToken")):
                return
            query["pageToken"] = token

    def _whole(self, call: UpstreamCall) -> JsonObject:
        """The object of an answer that is not a stream."""
        begun: list[HttpResponse] = []
        try:
            answer, mask = wait_for(self.accepted(call, begun.append))
            body = mask.in_body(b"".join(_at_most(LARGEST_WHOLE_ANSWER, answer.body())))
            answered = objects_in(body)[0]
        finally:
            for each in begun:
                each.close()
        if "error" in answered:
            raise error_from_payload(answered, call.model)
        return answered

    # --- sending -------------------------------------------------------------------------------------

    def accepted(
        self, call: UpstreamCall, began: Callable[[HttpResponse], None] = lambda _answer: None
    ) -> Generator[Tick, None, Accepted]:
        """The answer, once it was let in and its head has come. Each answer is shown to `began` before it is
        waited for, so that it can be closed meanwhile."""
        refusal: BridgeError = UpstreamMisconfigured("The bridge has nothing to show to Gemini.")
        quota = call.quota or call.model
        for credential in self._credentials.credentials(quota, call.conversation):
            if not isinstance(credential, Credential):
                yield credential
                continue
            answer = self._sent(call, credential)
            began(answer)
            for _ in answer.head():
                yield ()
            if answer.status == 200:
                return Accepted(answer, Mask(credential.secret, call.body))
            refusal = yield from self._refusal(answer, call, credential)
            if not self._credentials.refused(credential, answer.status, refusal, quota):
                break
        raise refusal

    def _sent(self, call: UpstreamCall, credential: Credential) -> HttpResponse:
        with foreign_errors_translated():
            request = call.prepared(credential.headers)
            pool = self._connections.of_this_process()
        return pool.send(request, call.timeouts)

    def _refusal(
        self, answer: HttpResponse, call: UpstreamCall, credential: Credential
    ) -> Generator[Tick, None, BridgeError]:
        pieces: list[bytes] = []
        with suppress(BridgeError):  # as much as could be had: the status alone says enough
            for data in _at_most(LARGEST_ERROR_BODY, answer.body()):
                pieces.append(data)
                if not data:
                    yield ()
        answer.close()
        if 300 <= answer.status < 400 or (answer.status == 404 and not call.model):
            # No other permit would mend this, so it is raised past them.
            raise UpstreamMisconfigured(
                f"{_shown(self.home)} answered {answer.status}: it is not the Gemini API."
            )
        body = Mask(credential.secret).in_body(b"".join(pieces))
        return error_from_response(answer.status, body, call.model)


def _at_leisure(call: UpstreamCall) -> UpstreamCall:
    """In the flex tier, which may begin after minutes, and have no room for a model while others have."""
    timeouts = replace(call.timeouts, first_byte=call.timeouts.whole)
    return replace(call, timeouts=timeouts, quota=f"{call.model}:{FLEX}")


def timeouts_from(settings: Settings) -> Timeouts:
    upstream = settings.upstream
    return Timeouts(
        upstream.connect_timeout,
        upstream.first_byte_timeout,
        upstream.read_timeout,
        upstream.answer_timeout,
        min(TICK, settings.server.heartbeat),
    )


def quoted(name: str) -> str:
    """The client chooses the name; it must stay one segment of the path."""
    return quote(name, safe="", errors="replace")


def wait_for(waiting: Generator[Tick, None, T]) -> T:
    """What is waited for, by somebody who has nothing else to do."""
    while True:
        try:
            next(waiting)
        except StopIteration as end:
            found: T = end.value
            return found


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


class RestStream(ChunkStream):
    def __init__(self, upstream: RestUpstream, call: UpstreamCall) -> None:
        self._upstream = upstream
        self._call = call
        self._response: HttpResponse | None = None
        self._waited_before = 0.0  #: seconds spent on answers that refused the request
        self._closed = False

    @property
    def waited(self) -> float:  # type: ignore[override]
        return self._waited_before + (self._response.waited if self._response is not None else 0.0)

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        if self._closed:
            return
        try:
            answer, mask = yield from self._upstream.accepted(self._call, self._take)
            yield from chunks_in(answer.body(), self._call.model, mask, self._upstream.unwrap)
        except BridgeError:
            if not self._closed:  # meanwhile: whatever it ran into is what was wanted
                raise
        finally:
            self.close()

    def _take(self, response: HttpResponse) -> None:
        self._waited_before = self.waited
        self._response = response
        if self._closed:
            response.close()

    def close(self) -> None:
        self._closed = True
        if self._response is not None:
            self._response.close()
