"""The body of a streamed answer.

The WSGI server always calls `close`, also when the client left before the first byte; a generator's `finally`
would not run then, and the upstream call would go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridge.exchange import Exchange
from bridge.http.client import Client
from bridge.http.places import Place
from bridge.observe.record import Record
from bridge.stored import Keep


class StreamBody:
    def __init__(
        self, exchange: Exchange, client: Client, record: Record, place: Place, keep: Keep | None
    ) -> None:
        self._exchange = exchange
        self._client = client
        self._record = record
        self._place = place
        self._keep = keep

    def __iter__(self) -> Iterator[bytes]:
        return self._exchange.encoded(self._client.waits)

    def close(self) -> None:
        try:
            self._exchange.close()
            if self._keep and self._exchange.answer is not None:
                self._keep(self._exchange.answer)
        finally:
            self._place.give_back()
            self._record.tell()
