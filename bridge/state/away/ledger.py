"""The shared ledger, and a local one in its place while the database is away.

The workers of a machine then admit the share of their bridge: each limit divided by the number of bridges
that were last seen alive. A day starts from the usage that was last known. Usage waits in a local file, and
is booked in the database exactly once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from bridge.ids_and_clock import random_id
from bridge.periodic_thread import call_periodically
from bridge.state.away.usage_store import move
from bridge.state.bridges import Bridges, LateUsage, late_usage
from bridge.state.errors import StorageError, StorageUnavailable
from bridge.state.ledger import Booking, Decision, Ledger, LimitedSubject, UsageSnapshot, shares
from bridge.state.local_ledger import KnownDay, LocalLedger
from bridge.state.private_file import write_private
from bridge.state.rate_window import day_of
from bridge.state.store import StoreCheck
from bridge.state.waiting_rows import WaitingRow, WaitingRows

log = logging.getLogger(__name__)

BETWEEN_TICKS = 3.0


class FallbackLedger(Ledger):
    def __init__(
        self,
        shared: Ledger,
        local: LocalLedger,
        late: WaitingRows,
        bridges: Bridges,
        alive: Path,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`late`: usage that waits. `alive`: a file with the number of bridges, for workers that start while
        the database is away."""
        self._shared = shared
        self._local = local
        self._late = late
        self._bridges = bridges
        self._alive = _KnownNumber(alive)
        self._now = now
        self._lock = threading.Lock()
        self._unsaved: dict[str, KnownDay] = {}
        self._admitted: dict[str, Booking] = {}  #: of the local ledger, by the id of the request
        self._counting_locally = False

    def enter(self, subjects: Sequence[LimitedSubject]) -> Decision:
        try:
            decision = self._shared.enter(subjects)
        except StorageError as error:
            self._warn(error)
            return self._enter_locally(subjects)
        self._learn(subjects, decision.before)
        if decision.booking is not None:
            self._local.count_running(_streaming(subjects), 1)
        return decision

    def leave(self, booking: Booking, tokens: int, cost: float, *, refused: bool = False) -> None:
        with self._lock:
            ours = self._admitted.pop(booking.request, None)
        if ours is None:
            self._local.count_running(_streaming(booking.subjects), -1)
        else:
            with suppress(StorageError):  # the local ledger reports it
                self._local.leave(ours, tokens, cost, refused=refused)
        try:
            self._shared.leave(booking, tokens, cost, refused=refused and ours is None)
        except StorageError as error:
            self._warn(error)
            self._book_later(booking, tokens, cost)

    def look(self, subjects: Sequence[LimitedSubject]) -> UsageSnapshot:
        try:
            snapshot = self._shared.look(subjects)
        except StorageError:
            return self._local.look(subjects)._replace(parts=self._alive.number)
        self._learn(subjects, snapshot)
        return snapshot

    @property
    def away(self) -> bool:
        return self._shared.away

    @property
    def location(self) -> str:
        return self._shared.location

    def check(self) -> StoreCheck:
        return self._shared.check()

    # --- without the database ------------------------------------------------------------------------

    def _enter_locally(self, subjects: Sequence[LimitedSubject]) -> Decision:
        self._save_known(at_least=True)
        parts = self._alive.number
        before, reached, booking = self._local.enter(shares(subjects, parts))
        before = before._replace(parts=parts)
        if booking is None:
            return Decision(before, reached, None)
        admitted = Booking(tuple(subjects), booking.at, random_id("request_"))
        with self._lock:
            self._admitted[admitted.request] = booking
        self._bridges.hold(admitted)
        return Decision(before, (), admitted)

    def _book_later(self, booking: Booking, tokens: int, cost: float) -> None:
        late = late_usage(booking, tokens, cost)
        if late is not None and not self._late.add(WaitingRow(late.request, list(late[1:]))):
            raise StorageUnavailable(f"{self._late.location} is full: the usage of a request is not counted")

    def _learn(self, subjects: Sequence[LimitedSubject], snapshot: UsageSnapshot) -> None:
        for subject, spent in zip(subjects, snapshot.spent, strict=True):
            if subject.limits.has_budget:
                day = KnownDay(subject.id, day_of(snapshot.now), spent.day_tokens, spent.day_cost)
                with self._lock:
                    self._unsaved[subject.id] = day

    def _save_known(self, *, at_least: bool) -> None:
        with self._lock:
            unsaved, self._unsaved = self._unsaved, {}
        parts = self._alive.number
        if unsaved:
            days = [each.divided(parts) for each in unsaved.values()]
            self._local.remember(days, at_least=at_least)

    def _warn(self, error: StorageError) -> None:
        """Once for each outage."""
        with self._lock:
            if self._counting_locally:
                return
            self._counting_locally = True
        told = {"reason": error.reason, "bridges": self._alive.number}
        log.warning("limits are counted on this machine alone until the database answers", extra=told)

    # --- in the background ---------------------------------------------------------------------------

    def serve(self) -> None:
        threading.Thread(target=self.tick, daemon=True).start()
        call_periodically(self, FallbackLedger.tick, BETWEEN_TICKS)

    def tick(self) -> None:
        """Book what waits, and tell the other bridges that this one is alive."""
        try:
            move(self._late, self._book)
            self._alive.change(self._bridges.beat())
            self._save_known(at_least=False)
        except StorageError:
            return  # the database reports why
        except Exception:  # the thread must not end
            log.exception("limits cannot be booked in the database")
            return
        with self._lock:
            ended, self._counting_locally = self._counting_locally, False
        if ended:
            log.warning("limits are counted in the database again")

    def _book(self, rows: Sequence[WaitingRow]) -> None:
        self._bridges.book([LateUsage(row.id, *row.values) for row in rows])


class _KnownNumber:
    """A number, at least 1, that all workers of this machine know, the next ones too."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def change(self, number: int) -> None:
        if number != self.number:
            write_private(self._path, str(number).encode())

    @property
    def number(self) -> int:
        try:
            return max(1, int(self._path.read_text("ascii")))
        except (OSError, ValueError):
            return 1


def _streaming(subjects: Sequence[LimitedSubject]) -> Iterator[str]:
    return (subject.id for subject in subjects if subject.limits.streams)
