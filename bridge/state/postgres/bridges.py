"""The bridges that share the database. Each worker records every few seconds that its bridge is alive."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from bridge.state.bridges import Bridges, LateUsage
from bridge.state.ledger import Booking
from bridge.state.postgres.database import Database, PostgresStore
from bridge.state.postgres.ledger import PostgresLedger
from bridge.state.store import PATIENT, StoreHealth

_BEAT = "SELECT gemini_bridge.beat(%s)"
_BOOK = "SELECT gemini_bridge.book_late(%s::text[], %s::text[], %s::bigint[], %s::float8[], %s::float8[])"


class PostgresBridges(PostgresStore, Bridges):
    name = "bridges"
    tables = ("bridge_node",)

    def __init__(self, database: Database, ledger: PostgresLedger, folder: Path) -> None:
        """`folder`: the state folder, which the workers of one bridge share."""
        super().__init__(database)
        self._ledger = ledger
        self._bridge = f"{socket.gethostname()}:{folder.absolute()}"

    def serve(self) -> None:
        self._database.prepare()

    def health(self) -> StoreHealth:
        return self._database.health()

    def beat(self) -> int:
        ((alive,),) = self._database.run(_BEAT, (self._bridge,), patience=PATIENT)
        return int(alive)

    def book(self, late: Sequence[LateUsage]) -> None:
        columns = list(map(list, zip(*sorted(late), strict=True)))
        columns[1] = [",".join(subjects) for subjects in columns[1]]
        columns[3:] = [list(map(float, values)) for values in columns[3:]]  # psycopg takes one kind of number
        self._database.run(_BOOK, columns, patience=PATIENT)

    def hold(self, booking: Booking) -> None:
        self._ledger.hold(booking.request, booking.subjects)
