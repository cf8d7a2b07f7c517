"""Usage that waits in a local file, and arrives in the shared database exactly once.

A request adds its row to the file before its last byte is sent, so a killed worker loses none. Each worker
moves the rows of all workers of its machine. A row has an id, so the database counts it once, however often
it arrives.

A row also holds what the request adds to the budgets of the day. The ledger books that itself, right after
the row is kept; it is booked from the row only if the worker was killed between the two.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

from bridge.periodic_thread import call_periodically
from bridge.state.bridges import Bridges, LateUsage
from bridge.state.errors import StorageError, StorageUnavailable
from bridge.state.store import StoreCheck
from bridge.state.usage_store import (
    ExperimentRequest,
    Refusal,
    RefusalSum,
    UsageGroup,
    UsageQuery,
    UsageRow,
    UsageStore,
)
from bridge.state.waiting_rows import WaitingRow, WaitingRows

log = logging.getLogger(__name__)

BETWEEN_MOVES = 0.5
MOST_AT_ONCE = 1_000
#: Seconds for which a row is not moved, so that the ledger books first: it counts tokens of the minute too.
HELD = 0.6


def move(waiting: WaitingRows, write: Callable[[Sequence[WaitingRow]], None]) -> int:
    """Write all waiting rows and remove them. Returns the number of rows that the database refuses for what
    they contain: these are removed too. Raises StorageError; then the rows wait."""
    refused = 0
    while rows := waiting.take(MOST_AT_ONCE):
        try:
            refused += _written(rows, write)
        except StorageError:
            waiting.give_back(rows)
            raise
        waiting.remove(rows)
    return refused


def _written(rows: Sequence[WaitingRow], write: Callable[[Sequence[WaitingRow]], None]) -> int:
    try:
        write(rows)
    except StorageError as error:
        if type(error) is not StorageError:  # the database is away, or not fit for use
            raise
        if len(rows) > 1:
            return sum(_written([row], write) for row in rows)
        log.warning("a waiting row is dropped: the database refuses it", extra={"reason": error.reason})
        return 1
    return 0


def _without_lists(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if not isinstance(value, list)]


class WaitingUsageStore(UsageStore):
    def __init__(self, shared: UsageStore, waiting: WaitingRows, bridges: Bridges) -> None:
        self._shared = shared
        self._waiting = waiting
        self._bridges = bridges
        self._known_bytes = 0
        self._dropped = 0

    # --- rows ----------------------------------------------------------------------------------------

    def keep(self, row: UsageRow, late: LateUsage | None = None) -> bool:
        values = [*row, list(late)] if late else list(row)
        try:
            return self._waiting.add(WaitingRow(row.id, values), HELD if late else 0.0)
        except StorageError:
            return False

    def serve(self) -> None:
        call_periodically(self, WaitingUsageStore.flush, BETWEEN_MOVES)

    def finish(self) -> None:
        self.flush()
        if self.waiting():  # rows that are held, or the database is away
            time.sleep(HELD)
            self.flush()

    def flush(self) -> None:
        """Move the rows, unless the database is away."""
        try:
            self._dropped += move(self._waiting, self._write)
        except StorageUnavailable:
            pass  # the rows wait, and the database reports why
        except Exception:  # the thread must not end
            log.exception("waiting usage cannot be written")

    def _write(self, rows: Sequence[WaitingRow]) -> None:
        """Rows of an earlier version have fewer values. A list among the values is the late usage."""
        late = [LateUsage(*each) for row in rows for each in row.values if isinstance(each, list)]
        if late:
            self._bridges.book(late)
        self._shared.write([UsageRow(*_without_lists(row.values)) for row in rows])

    def waiting(self) -> int:
        try:
            return self._waiting.count()
        except StorageError:
            return 0

    @property
    def dropped(self) -> int:
        return self._dropped

    # --- in the database -----------------------------------------------------------------------------

    @property
    def away(self) -> bool:
        return self._shared.away

    @property
    def location(self) -> str:
        return self._shared.location

    def check(self) -> StoreCheck:
        return self._shared.check()

    def write(self, rows: Sequence[UsageRow]) -> None:
        self._shared.write(rows)

    def count_refusals(self, refusals: Mapping[Refusal, int]) -> None:
        self._shared.count_refusals(refusals)

    def tidy(self) -> bool:
        return self._shared.tidy()

    def stored_bytes(self) -> int:
        """While the database is away: the size that was last known. It is shown in metrics, which never
        fail."""
        with suppress(StorageError):
            self._known_bytes = self._shared.stored_bytes()
        return self._known_bytes

    def sums(self, query: UsageQuery) -> list[UsageGroup]:
        return self._shared.sums(query)

    def refusals(self, query: UsageQuery) -> list[RefusalSum]:
        return self._shared.refusals(query)

    def experiment_requests(self, experiment: str, since: date, until: date) -> list[ExperimentRequest]:
        return self._shared.experiment_requests(experiment, since, until)
