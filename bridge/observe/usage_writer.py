"""The observer that keeps the accounts, and the thread that writes them.

It can neither slow nor fail a request: a request leaves its row in a bounded queue and is done. One thread
in each process, started with the first row, writes them in batches. While the file is locked or the disk
full the rows wait; when the queue is full they are dropped, and counted. What is in the queue is written at
the end of the process.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import sqlite3
import threading
import time
from collections import Counter
from datetime import UTC, datetime

from bridge.observe import metrics
from bridge.observe.costs import cost_of
from bridge.observe.record import Record
from bridge.settings.prices import PriceTable
from bridge.state.usage_store import MOST_REFUSALS, AccountStore, Refusal, Row

log = logging.getLogger(__name__)

MOST_WAITING = 10_000
MOST_AT_ONCE = 1_000
#: Seconds in which rows gather to be written together.
GATHERING = 0.5
#: Seconds until the file is tried again.
RETRY = 1.0
TIDYING = 600.0
BETWEEN_WARNINGS = 60.0
#: Seconds that the end of the process may take.
LAST_WORDS = 3.0
#: Names that clients choose are cut to this.
LONGEST_NAME = 128

#: These pass, and the rows with them: a locked file, a full or unwritable disk.
PASSING = (sqlite3.OperationalError, OSError)


class UsageObserver:
    def __init__(self, store: AccountStore, prices: PriceTable) -> None:
        self._prices = prices
        self._writer = UsageWriter(store)

    def __call__(self, record: Record) -> None:
        if record.asked_model:
            self._writer.put(self._row(record))
        elif record.refused and record.protocol:
            self._writer.put_refusal(_refusal(record))

    def close(self) -> None:
        self._writer.close()

    def _row(self, record: Record) -> Row:
        return Row(
            time.time(),
            _name(record.key),
            record.protocol or "",
            record.client or "",
            _name(record.model),
            _name(record.upstream_model),
            *record.tokens,
            cost_of(record, self._prices),
            record.seconds,
            record.seconds_to_first_byte,
            record.outcome,
            record.error or "",
            record.status,
            record.service_tier or "",
        )


def _refusal(record: Record) -> Refusal:
    rule = record.rule or record.error or ""
    day = datetime.now(UTC).date().isoformat()
    return Refusal(day, _name(record.key), record.protocol or "", rule, _name(record.model))


def _name(chosen: str | None) -> str:
    return chosen[:LONGEST_NAME] if chosen else ""


class UsageWriter:
    def __init__(self, store: AccountStore) -> None:
        self._store = store
        self._starting = threading.Lock()
        self._process = 0
        self._tidy_at = 0.0
        self._warned_at = float("-inf")
        self._dropped = 0
        self._refusals: Counter[Refusal] = Counter()
        self._refusals_lock = threading.Lock()

    def put(self, row: Row) -> None:
        if self._process != os.getpid():
            self._start()
        if self._rows.qsize() < MOST_WAITING:
            self._rows.put(row)
        else:
            self._drop(1, "the queue is full")

    def put_refusal(self, refusal: Refusal) -> None:
        """Refusals are counted here first: a flood of them must not fill the queue."""
        if self._process != os.getpid():
            self._start()
        with self._refusals_lock:
            first = not self._refusals
            known = refusal in self._refusals or len(self._refusals) < MOST_REFUSALS
            self._refusals[refusal if known else refusal._replace(model="")] += 1
        if first:
            self._rows.put(None)  # wakes the thread

    def close(self) -> None:
        """Write what is left, as far as that can be done quickly."""
        if self._process != os.getpid():
            return
        self._ending.set()
        self._rows.put(None)  # wakes the thread, if it sleeps
        self._thread.join(LAST_WORDS)

    def _start(self) -> None:
        """In the process that has something to write: threads and queues do not survive a fork."""
        with self._starting:
            if self._process == os.getpid():
                return
            self._rows: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
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
        self._write_refusals()
        while rows := self._waiting():
            self._write(rows)

    def _gathered(self) -> list[Row]:
        """What came within a moment of the first; nothing, if nothing came for long."""
        try:
            first = self._rows.get(timeout=TIDYING)
        except queue.Empty:
            return []
        self._ending.wait(GATHERING)
        return ([first] if first is not None else []) + self._waiting()

    def _waiting(self) -> list[Row]:
        rows: list[Row] = []
        while len(rows) < MOST_AT_ONCE and not self._rows.empty():
            row = self._rows.get_nowait()
            if row is not None:
                rows.append(row)
        return rows

    def _write(self, rows: list[Row]) -> None:
        while rows:
            try:
                self._store.write(rows)
                return
            except PASSING as error:
                self._warn("accounts cannot be written, they wait", reason=str(error))
                if not self._ending.wait(RETRY):
                    continue
                self._drop(len(rows), str(error))
            except Exception as error:  # rows that no database would take
                self._drop(len(rows), type(error).__name__)
            return

    def _write_refusals(self) -> None:
        with self._refusals_lock:
            refusals, self._refusals = self._refusals, Counter()
        try:
            if refusals:
                self._store.count_refusals(refusals)
        except PASSING as error:
            with self._refusals_lock:
                self._refusals.update(refusals)
            self._warn("refusals cannot be written, they wait", reason=str(error))
        except Exception as error:
            self._warn("refusals dropped", reason=type(error).__name__)

    def _tidy(self) -> None:
        if time.monotonic() < self._tidy_at:
            return
        try:
            more = self._store.tidy()
        except Exception as error:
            self._warn("accounts cannot be tidied", reason=str(error))
            more = False
        self._tidy_at = 0.0 if more else time.monotonic() + TIDYING

    # --- telling of it -------------------------------------------------------------------------------

    def _drop(self, rows: int, reason: str) -> None:
        self._dropped += rows
        metrics.accounts_rows_dropped(rows)
        self._warn("accounts dropped", rows_so_far=self._dropped, reason=reason)

    def _warn(self, message: str, **fields: object) -> None:
        """Once a minute at most: who cannot write the accounts may not be able to write a log either."""
        if time.monotonic() - self._warned_at >= BETWEEN_WARNINGS:
            self._warned_at = time.monotonic()
            log.warning(message, extra=fields)
