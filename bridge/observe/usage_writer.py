"""The observer that records usage, and the thread that writes it to the usage store.

It never slows down a request and never makes one fail: a request only puts a row into a bounded queue. One
thread in each process starts with the first row and writes the rows in batches. While the store is
unavailable the rows wait. When the queue is full, rows are dropped and counted. The end of the process
writes the rest of the queue. A store with a local file keeps each row at once, and writes it by itself.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
from collections import Counter
from datetime import UTC, datetime

from bridge.ids_and_clock import random_id
from bridge.observe import metrics
from bridge.observe.costs import cost_of, saved_cost_of
from bridge.observe.record import CACHE_HIT, FALLBACK, ArmOfRequest, Record
from bridge.settings.prices import PriceTable
from bridge.state.bridges import LateUsage
from bridge.state.errors import StorageError, StorageUnavailable
from bridge.state.usage_store import MOST_REFUSALS, Refusal, UsageRow, UsageStore

log = logging.getLogger(__name__)

MOST_WAITING = 10_000
MOST_AT_ONCE = 1_000
#: Seconds to collect rows for one batch, after the first row.
GATHERING = 0.5
#: Seconds until a failed write is repeated.
RETRY = 1.0
#: The same while the process ends.
RETRY_AT_END = 0.1
TIDYING = 600.0
BETWEEN_WARNINGS = 60.0
#: Seconds that the last writes may delay the end of the process.
LAST_WORDS = 3.0
NO_EXPERIMENT = ArmOfRequest("", "", "")
#: Longer names are truncated, since clients choose some of them.
LONGEST_NAME = 128


class UsageObserver:
    def __init__(self, store: UsageStore, prices: PriceTable) -> None:
        self._prices = prices
        self._writer = UsageWriter(store)

    def __call__(self, record: Record) -> None:
        if record.asked_model:
            self._writer.put(self._row(record), record.owed and record.owed(record))
        elif record.refused and record.protocol:
            self._writer.put_refusal(_refusal(record))

    def close(self) -> None:
        self._writer.close()

    def _row(self, record: Record) -> UsageRow:
        return UsageRow(
            time.time(),
            _name(record.key),
            record.protocol or "",
            record.client or "",
            _name(record.model),
            _name(record.target_name),
            *record.tokens,
            cost_of(record, self._prices),
            record.seconds,
            record.seconds_to_first_byte,
            record.outcome,
            record.error or "",
            record.status,
            random_id("usage_"),
            record.service_tier or "",
            from_cache=int(record.cache == CACHE_HIT),
            saved=saved_cost_of(record, self._prices),
            conversation=record.conversation,
            **(record.assignment or NO_EXPERIMENT)._asdict(),
            streamed=int(record.stream),
            fallbacks=record.notes[FALLBACK],
            malformed=record.malformed_answers,
        )


def _refusal(record: Record) -> Refusal:
    rule = record.rule or record.error or ""
    day = datetime.now(UTC).date().isoformat()
    return Refusal(day, _name(record.key), record.protocol or "", rule, _name(record.model))


def _name(chosen: str | None) -> str:
    return chosen[:LONGEST_NAME] if chosen else ""


class UsageWriter:
    def __init__(self, store: UsageStore) -> None:
        self._store = store
        self._starting = threading.Lock()
        self._process = 0
        self._tidy_at = 0.0
        self._give_up_at = 0.0
        self._warned_at = float("-inf")
        self._dropped = 0
        self._refusals: Counter[Refusal] = Counter()
        self._refusals_lock = threading.Lock()

    def put(self, row: UsageRow, late: LateUsage | None = None) -> None:
        if self._process != os.getpid():
            self._start()
        if self._store.keep(row, late):
            return
        if self._rows.qsize() < MOST_WAITING:
            self._rows.put(row)
        else:
            self._drop(1, "the queue is full")

    def put_refusal(self, refusal: Refusal) -> None:
        """Refusals are counted in memory first, so that a flood of them does not fill the queue."""
        if self._process != os.getpid():
            self._start()
        with self._refusals_lock:
            first = not self._refusals
            known = refusal in self._refusals or len(self._refusals) < MOST_REFUSALS
            self._refusals[refusal if known else refusal._replace(model="")] += 1
        if first:
            self._rows.put(None)  # wakes the thread

    def close(self) -> None:
        """Write the rest of the queue, for a few seconds at most."""
        if self._process != os.getpid():
            return
        self._give_up_at = time.monotonic() + LAST_WORDS - 0.5  # the last try takes time too
        self._ending.set()
        self._rows.put(None)  # wakes the thread
        self._thread.join(LAST_WORDS)
        self._store.finish()

    def _start(self) -> None:
        """Called in the process that writes: threads and queues do not survive a fork."""
        with self._starting:
            if self._process == os.getpid():
                return
            self._rows: queue.SimpleQueue[UsageRow | None] = queue.SimpleQueue()
            self._ending = threading.Event()
            self._thread = threading.Thread(target=self._work, name="accounts", daemon=True)
            self._thread.start()
            atexit.register(self.close)
            self._process = os.getpid()

    # --- in the thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._ending.is_set():
            self._write(self._gathered())
            self._write_refusals()
            self._tidy()
        while rows := self._waiting():
            self._write(rows)
        self._write_refusals()

    def _gathered(self) -> list[UsageRow]:
        """The rows of the next batch; none if no row came for a long time."""
        try:
            first = self._rows.get(timeout=RETRY if self._refusals else TIDYING)
        except queue.Empty:
            return []
        self._ending.wait(GATHERING)
        return ([first] if first is not None else []) + self._waiting()

    def _waiting(self) -> list[UsageRow]:
        rows: list[UsageRow] = []
        while len(rows) < MOST_AT_ONCE and not self._rows.empty():
            row = self._rows.get_nowait()
            if row is not None:
                rows.append(row)
        return rows

    def _write(self, rows: list[UsageRow]) -> None:
        while rows:
            try:
                self._store.write(rows)
                return
            except StorageUnavailable as error:
                self._warn("usage cannot be written, the rows wait", reason=error.reason)
                if self._may_retry():
                    continue
                self._drop(len(rows), error.reason)
            except Exception as error:  # a bug in the store, or a row that no database accepts: it stays
                self._drop(len(rows), _reason(error))
            return

    def _may_retry(self) -> bool:
        """Pause before a retry. At the end too: other workers write their last rows at the same time."""
        if not self._ending.wait(RETRY):
            return True
        time.sleep(RETRY_AT_END)
        return time.monotonic() < self._give_up_at

    def _write_refusals(self) -> None:
        with self._refusals_lock:
            refusals, self._refusals = self._refusals, Counter()
        try:
            if refusals:
                self._store.count_refusals(refusals)
        except StorageUnavailable as error:
            with self._refusals_lock:
                self._refusals.update(refusals)
            self._warn("refusals cannot be written, they wait", reason=error.reason)
        except Exception as error:
            self._warn("refusals dropped", reason=_reason(error))

    def _tidy(self) -> None:
        if time.monotonic() < self._tidy_at:
            return
        try:
            more = self._store.tidy()
        except Exception as error:
            self._warn("old usage cannot be deleted", reason=_reason(error))
            more = False
        self._tidy_at = 0.0 if more else time.monotonic() + TIDYING

    # --- warnings ------------------------------------------------------------------------------------

    def _drop(self, rows: int, reason: str) -> None:
        self._dropped += rows
        metrics.usage_rows_dropped(rows)
        self._warn("usage dropped", rows_so_far=self._dropped, reason=reason)

    def _warn(self, message: str, **fields: object) -> None:
        """Once a minute at most: a full disk may hold the log too."""
        if time.monotonic() - self._warned_at >= BETWEEN_WARNINGS:
            self._warned_at = time.monotonic()
            log.warning(message, extra=fields)


def _reason(error: Exception) -> str:
    """For the log. Other errors than StorageError may quote the row in their message."""
    return error.reason if isinstance(error, StorageError) else type(error).__name__
