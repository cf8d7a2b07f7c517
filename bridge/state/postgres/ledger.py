"""The ledger in PostgreSQL. The functions of schema/0002_limits.sql decide and book by the server's clock, in
one round trip. Each running answer has a lease, which its worker renews every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from psycopg.rows import TupleRow

from bridge.ids_and_clock import random_id
from bridge.periodic_thread import call_periodically
from bridge.state.errors import StorageBusy, StorageError
from bridge.state.ledger import (
    Booking,
    Decision,
    Ledger,
    LimitedSubject,
    UsageSnapshot,
    subjects_at_limit,
)
from bridge.state.postgres.database import Database, PostgresStore
from bridge.state.rate_window import Second, Spent
from bridge.state.store import PATIENT

#: A lease lasts ten seconds.
BETWEEN_RENEWALS = 3.0
#: Seconds for which a request waits for its turn among the requests of the same subjects.
LONGEST_TURN = 2.0

_ENTER = """
SELECT * FROM gemini_bridge.enter(
    %s, %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::float8[], %s::bigint[], %s::float8
)
"""
_LOOK = "SELECT * FROM gemini_bridge.look(%s::text[], %s::float8)"
_LEAVE = (
    "SELECT gemini_bridge.leave(%s, %s::text[], %s::bigint, %s::float8, %s::text[], %s::bigint, %s::float8)"
)
_RENEW = "SELECT gemini_bridge.renew(%s::text[], %s::float8)"
_RESTORE = "SELECT gemini_bridge.restore(%s::text[], %s::text[], %s::float8)"


def by_the_server() -> None:
    """In place of a clock: the server uses its own."""


class PostgresLedger(PostgresStore, Ledger):
    name = "limits"
    tables = ("second", "day", "running")

    def __init__(self, database: Database, now: Callable[[], float | None] = by_the_server) -> None:
        super().__init__(database)
        self._now = now
        self._running: dict[str, tuple[str, ...]] = {}  #: the subjects of each running answer of this process
        self._lock = threading.Lock()
        self._renewing: threading.Thread | None = None

    def enter(self, subjects: Sequence[LimitedSubject]) -> Decision:
        request = random_id("request_")
        limits = [subject.limits for subject in subjects]
        values = (
            request,
            [subject.id for subject in subjects],
            _array(each.requests_per_minute for each in limits),
            _array(each.tokens_per_minute for each in limits),
            _array(each.tokens_per_day for each in limits),
            _array(each.cost_per_day for each in limits),
            _array(each.streams for each in limits),
            self._now(),
        )
        rows = self._entered(values)
        before = _snapshot(rows)
        if not rows[0][0]:
            return Decision(before, subjects_at_limit(subjects, before), None)
        self.hold(request, subjects)
        return Decision(before, (), Booking(tuple(subjects), before.now, request))

    def _entered(self, values: Sequence[object]) -> list[TupleRow]:
        """Wait as long as many requests are in the way, because limits counted without them are not exact."""
        give_up_at = time.monotonic() + LONGEST_TURN
        while True:
            try:
                return self._database.run(_ENTER, values)
            except StorageBusy:
                if time.monotonic() >= give_up_at:
                    raise

    def leave(self, booking: Booking, tokens: int, cost: float, *, refused: bool = False) -> None:
        subjects = sorted(booking.subjects)
        counting = [each.id for each in subjects if each.limits.counts_tokens and (tokens or cost)]
        refunded = [each.id for each in subjects if each.limits.requests_per_minute] if refused else []
        with self._lock:
            streaming = self._running.pop(booking.request, ())
        values = (booking.request, counting, tokens, cost, refunded, int(booking.at), self._now())
        if streaming or counting or refunded:
            self._database.run(_LEAVE, values)

    def look(self, subjects: Sequence[LimitedSubject]) -> UsageSnapshot:
        values = ([subject.id for subject in subjects], self._now())
        return _snapshot(self._database.run(_LOOK, values))

    # --- leases --------------------------------------------------------------------------------------

    def hold(self, request: str, subjects: Sequence[LimitedSubject]) -> None:
        """Renew the leases of this request until it leaves. Missing leases are made again."""
        streaming = tuple(subject.id for subject in subjects if subject.limits.streams)
        if not streaming:
            return
        with self._lock:
            self._running[request] = streaming
            if self._renewing is None:
                self._renewing = call_periodically(self, PostgresLedger.renew, BETWEEN_RENEWALS)

    def renew(self) -> None:
        """Renew the leases of this process."""
        with self._lock:
            running = list(self._running)
        if running:
            with suppress(StorageError):  # the next call renews the same
                found = self._database.run(_RENEW, (running, self._now()), patience=PATIENT)
                self._restore(set(running).difference(request for (request,) in found))

    def _restore(self, gone: set[str]) -> None:
        """A server that crashed has lost its leases. An answer that has ended meanwhile gets no new one."""
        with self._lock:
            rows = [(subject, request) for request in gone for subject in self._running.get(request, ())]
        if rows:
            subjects, requests = map(list, zip(*rows, strict=True))
            self._database.run(_RESTORE, (subjects, requests, self._now()))


def _array(numbers: Iterable[float]) -> str:
    """An array in PostgreSQL's notation. psycopg needs much longer to write a list of numbers."""
    return f"{{{','.join(map(repr, numbers))}}}"


def _snapshot(rows: Sequence[TupleRow]) -> UsageSnapshot:
    return UsageSnapshot([_spent(row[2:8]) for row in rows], rows[0][1])


def _spent(row: TupleRow) -> Spent:
    starts, requests, tokens, day_tokens, day_cost, running = row
    seconds = tuple(map(Second, starts or (), requests or (), tokens or ()))
    return Spent(seconds, day_tokens or 0, day_cost or 0.0, running)
