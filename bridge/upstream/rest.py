"""Base class of the upstreams that speak Gemini's API over REST.

An upstream provides the URLs and bodies of its calls, a function that unwraps its chunks, and its
`CredentialSource`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import urlencode

from bridge.errors import UpstreamMalformed
from bridge.gemini.service_tier import FLEX
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.upstream.auth.credentials import CredentialSource
from bridge.upstream.base import ChunkStream
from bridge.upstream.http_upstream import HttpStream, HttpUpstream
from bridge.upstream.masking import Mask
from bridge.upstream.payloads import Unwrap, chunks_in
from bridge.upstream.transport.connection_pool import OF_ENVIRONMENT, NetworkRoute, UpstreamCall
from bridge.upstream.transport.http_response import Timeouts

MOST_MODEL_PAGES = 20


class RestUpstream(HttpUpstream):
    def __init__(
        self,
        *,
        base_url: str,
        credentials: CredentialSource,
        timeouts: Timeouts,
        pool_size: int,
        unwrap: Unwrap | None = None,
        route: NetworkRoute = OF_ENVIRONMENT,
    ) -> None:
        """`unwrap` extracts the chunk from a payload; None if the payload is the chunk."""
        super().__init__(
            base_url=base_url,
            credentials=credentials,
            timeouts=timeouts,
            pool_size=pool_size,
            route=route,
        )
        self._unwrap = unwrap

    @abstractmethod
    def _stream_call(self, request: GenerateRequest) -> UpstreamCall: ...

    @abstractmethod
    def _count_call(self, request: GenerateRequest) -> UpstreamCall: ...

    def stream(self, request: GenerateRequest) -> ChunkStream:
        call = replace(self._stream_call(request), conversation=request.conversation)
        if request.service_tier == FLEX:
            call = _with_flex_limits(call)

        def decode(body: Iterator[bytes], mask: Mask) -> Iterator[Sequence[Chunk]]:
            return chunks_in(body, call.model, mask, self._unwrap)

        return HttpStream(self, call, decode)

    def count_tokens(self, request: GenerateRequest) -> int:
        total = self._fetch_object(self._count_call(request)).get("totalTokens")
        if not isinstance(total, int):
            raise UpstreamMalformed("Gemini's token count has no totalTokens.")
        return total

    def _pages(self, path: str, size: int) -> Iterator[JsonObject]:
        """The pages of a list, up to MOST_MODEL_PAGES."""
        query = {"pageSize": str(size)}
        for _ in range(MOST_MODEL_PAGES):
            page = self._fetch_object(
                UpstreamCall("GET", f"{self.home}{path}?{urlencode(query)}", self._unary_timeouts)
            )
            yield page
            if not (token := page.get("nextPageToken")):
                return
            query["pageToken"] = token


def _with_flex_limits(call: UpstreamCall) -> UpstreamCall:
    """An answer of the flex tier may begin after minutes, and the tier has a quota of its own."""
    timeouts = replace(call.timeouts, first_byte=call.timeouts.whole)
    return replace(call, timeouts=timeouts, quota=f"{call.model}:{FLEX}")
