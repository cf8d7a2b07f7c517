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
from bridge.observe.record import Record
from bridge.server.client_socket import ClientSocket


class StreamBody:
    def __init__(
        self,
        exchange: Exchange,
        client: ClientSocket,
        record: Record,
        resources: ExitStack,
        keep: Keep | None,
    ) -> None:
        """The body releases `resources`, which belong to the request, at its end."""
        self._exchange = exchange
        self._client = client
        self._record = record
        self._resources = resources
        self._keep = keep
        metrics.stream_began()
        resources.callback(metrics.stream_ended)

    def __iter__(self) -> Iterator[bytes]:
        return self._exchange.encoded(self._client.still_connected, self._finish)

    def _finish(self) -> None:
        """Called before the last event is sent. Afterwards the client may at once fetch the stored answer or
        send its next request, and a process that is killed does not lose the usage."""
        answer = self._exchange.answer
        if self._keep is not None and answer is not None:
            self._keep(answer)
        self._exchange.close()
        self._record.tell()

    def close(self) -> None:
        self._resources.close()
