"""The body of a streamed answer.

The WSGI server always calls `close`, even if the client disconnected before the first byte. In that case the
`finally` of a generator would not run, and the upstream call would continue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from bridge.exchange.exchange import Exchange
from bridge.exchange.stored_answers import Keep
from bridge.observe import metrics
from bridge.server.client_socket import ClientSocket


class StreamBody:
    def __init__(
        self, exchange: Exchange, client: ClientSocket, resources: ExitStack, keep: Keep | None
    ) -> None:
        """The body releases `resources`, which belong to the request, at its end."""
        self._exchange = exchange
        self._client = client
        self._resources = resources
        self._keep = keep
        metrics.stream_began()
        resources.callback(metrics.stream_ended)

    def __iter__(self) -> Iterator[bytes]:
        pieces = self._exchange.encoded(self._client.still_connected)
        return pieces if self._keep is None else self._stored(pieces, self._keep)

    def _stored(self, pieces: Iterator[bytes], keep: Keep) -> Iterator[bytes]:
        """Store the answer before its last event is sent, because the client may then request it at once."""
        kept = False
        for piece in pieces:
            if not kept and self._exchange.answer is not None:
                kept = True
                keep(self._exchange.answer)
            yield piece

    def close(self) -> None:
        self._resources.close()
