"""Media at an https address: the upstream fetches it, or the bridge does, or the request is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from bridge.errors import InvalidRequest
from bridge.fetch.media_fetcher import Book, MediaFetcher
from bridge.gemini.media import is_youtube
from bridge.gemini.types import Content, FileData, FunctionResponse, GenerateRequest, InlineData, Part
from bridge.observe.record import Record
from bridge.upstream.base import Upstream
from bridge.upstream.capabilities import Capability

Fetched = Mapping[str, InlineData]


class MediaByUrl:
    """An address in the native protocols has no `param`: it is sent to the upstream as it is."""

    def __init__(self, fetcher: MediaFetcher | None) -> None:
        """Without `fetcher` the bridge fetches nothing."""
        self._fetcher = fetcher

    def fetched(
        self, request: GenerateRequest, upstreams: Iterable[Upstream], book: Book, record: Record
    ) -> GenerateRequest:
        """The request with the media that the bridge fetches; raises if neither the bridge nor each of the
        `upstreams` fetches an address."""
        files = {file.uri: file for content in request.contents for file in _files(content)}
        if not files:
            return request
        ours = {uri: file for uri, file in files.items() if self._fetcher and not is_youtube(uri)}
        if any(Capability.MEDIA_ADDRESSES in upstream.CANNOT for upstream in upstreams):
            for file in files.values():
                if file.uri not in ours:
                    raise _refused(file)
        if not self._fetcher or not ours:
            return request
        with record.waiting():
            fetches = self._fetcher.for_request(book)
            media = {uri: fetches.fetch(file) for uri, file in ours.items()}
        return replace(request, contents=tuple(_with_fetched(content, media) for content in request.contents))


def _files(content: Content) -> Iterator[FileData]:
    for part in content.parts:
        media = part.data.media if isinstance(part.data, FunctionResponse) else (part.data,)
        yield from (item for item in media if isinstance(item, FileData) and item.param)


def _refused(file: FileData) -> InvalidRequest:
    if is_youtube(file.uri):
        reason = "this upstream does not read YouTube videos"
    else:
        reason = "this upstream does not fetch addresses, nor does the bridge (media.fetch)"
    return InvalidRequest(f"{file.param}: {reason}; send the content itself, as base64", param=file.param)


def _with_fetched(content: Content, fetched: Fetched) -> Content:
    if not any(file.uri in fetched for file in _files(content)):
        return content
    return replace(content, parts=tuple(_part(part, fetched) for part in content.parts))


def _part(part: Part, fetched: Fetched) -> Part:
    data = part.data
    if isinstance(data, FunctionResponse):
        return replace(part, data=replace(data, media=tuple(_medium(item, fetched) for item in data.media)))
    return replace(part, data=_medium(data, fetched)) if isinstance(data, FileData) else part


def _medium(medium: InlineData | FileData, fetched: Fetched) -> InlineData | FileData:
    if isinstance(medium, FileData) and medium.param:
        return fetched.get(medium.uri, medium)
    return medium
