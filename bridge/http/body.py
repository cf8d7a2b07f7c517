"""The body of a streamed answer.

The WSGI server always calls `close`, also when the client left before the first byte; a generator's `finally`
would not run then, and the upstream call would go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridge.exchange import Exchange
from bridge.observe.record import Record


class StreamBody:
    def __init__(self, exchange: Exchange, record: Record) -> None:
        self._exchange = exchange
        self._record = record

    def __iter__(self) -> Iterator[bytes]:
        return self._exchange.encoded()

    def close(self) -> None:
        try:
            self._exchange.close()
        finally:
            self._record.tell()
