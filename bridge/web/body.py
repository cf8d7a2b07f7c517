"""The body of a streamed answer.

The WSGI server always calls `close`, also when the client left before the first byte; a generator's `finally`
would not run then, and the upstream call would go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridge.exchange.exchange import Exchange
from bridge.exchange.stored_answers import Keep
from bridge.observe import metrics
from bridge.observe.record import Record
from bridge.server.client_socket import ClientSocket
from bridge.server.slots import Slot


class StreamBody:
    def __init__(
        self, exchange: Exchange, client: ClientSocket, record: Record, slot: Slot, keep: Keep | None
    ) -> None:
        self._exchange = exchange
        self._client = client
        self._record = record
        self._slot = slot
        self._keep = keep
        self._under_way = True
        metrics.stream_began()

    def __iter__(self) -> Iterator[bytes]:
        pieces = self._exchange.encoded(self._client.still_connected)
        return pieces if self._keep is None else self._kept(pieces, self._keep)

    def _kept(self, pieces: Iterator[bytes], keep: Keep) -> Iterator[bytes]:
        """Before its last event leaves: who has read that may ask for the answer at once."""
        kept = False
        for piece in pieces:
            if not kept and self._exchange.answer is not None:
                kept = True
                keep(self._exchange.answer)
            yield piece

    def close(self) -> None:
        if self._under_way:
            self._under_way = False
            metrics.stream_ended()
        try:
            self._exchange.close()
        finally:
            self._slot.release()
            self._record.tell()
