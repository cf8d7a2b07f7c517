"""A streamed body of stored events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from flask import Response

from bridge.observe import metrics

#: Tells proxies to forward each event at once and to cache nothing.
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
EVENTS = "text/event-stream; charset=utf-8"


class EventBody:
    """The WSGI server always calls `close`, even if the client disconnected before the first byte."""

    def __init__(self, pieces: Iterator[bytes], resources: ExitStack) -> None:
        """The body releases `resources`, which belong to the request, at its end."""
        self._pieces = pieces
        self._resources = resources
        metrics.stream_began()
        resources.callback(metrics.stream_ended)

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        self._resources.close()


def event_response(
    pieces: Iterator[bytes], resources: ExitStack, headers: Mapping[str, str] | None = None
) -> Response:
    body = EventBody(pieces, resources.pop_all())
    return Response(
        body, content_type=EVENTS, headers={**STREAM_HEADERS, **(headers or {})}, direct_passthrough=True
    )
