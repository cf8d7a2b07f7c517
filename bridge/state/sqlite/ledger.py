"""The ledger in an SQLite file.

Seconds and days are sums that only grow, and writes delete the rows that no longer count. Each worker
writes its own number of running answers, and repeats it every few seconds. So the number of a killed worker
expires, and a number that could not be written is corrected by the next write.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from bridge.ids_and_clock import random_id
from bridge.periodic_thread import call_periodically
from bridge.state.errors import StorageError, StorageUnavailable
from bridge.state.ledger import (
    Booking,
    Decision,
    Ledger,
    LimitedSubject,
    UsageSnapshot,
    subjects_at_limit,
)
from bridge.state.rate_window import COUNTED_FOR, Second, Spent, day_of
from bridge.state.sqlite.database import Database, SqliteStore, Work
from bridge.state.sqlite.migrations import Schema, statements

log = logging.getLogger(__name__)
T = TypeVar("T")

BETWEEN_BEATS = 3.0
#: A worker that has not written its number for this long is dead, and so are its answers.
DEAD_AFTER = 10.0
#: After a failure the file is not used for this long, so that requests do not wait for it again and again.
PAUSE_AFTER_FAILURE = 5.0

SCHEMA = Schema(
    "running",
    (
        statements(
            """
            CREATE TABLE IF NOT EXISTS second (
                subject TEXT, start INTEGER, requests INTEGER NOT NULL, tokens INTEGER NOT NULL,
                PRIMARY KEY (subject, start)
            ) WITHOUT ROWID
            """,
            """
            CREATE TABLE IF NOT EXISTS day (
                subject TEXT, day INTEGER, tokens INTEGER NOT NULL, cost REAL NOT NULL,
                PRIMARY KEY (subject, day)
            ) WITHOUT ROWID
            """,
            """
            CREATE TABLE IF NOT EXISTS running (
                subject TEXT, worker TEXT, streams INTEGER NOT NULL, seen REAL NOT NULL,
                PRIMARY KEY (subject, worker)
            ) WITHOUT ROWID
            """,
        ),
    ),
)
_SECONDS = (
    "SELECT start, requests, tokens FROM second WHERE subject = ? AND start > ? AND start <= ? ORDER BY start"
)
_DAY = "SELECT tokens, cost FROM day WHERE subject = ? AND day = ?"
_OTHERS = (
    "SELECT COALESCE(SUM(streams), 0) FROM running WHERE subject = ? AND worker <> ? AND seen BETWEEN ? AND ?"
)
_ADD_TO_SECOND = (
    "INSERT INTO second (subject, start, requests, tokens) VALUES (?1, ?2, ?3, ?4)"
    " ON CONFLICT (subject, start) DO UPDATE SET requests = requests + ?3, tokens = tokens + ?4"
)
_TAKE_FROM_SECOND = (
    "UPDATE second SET requests = requests - 1 WHERE subject = ? AND start = ? AND requests > 0"
)
_ADD_TO_DAY = (
    "INSERT INTO day (subject, day, tokens, cost) VALUES (?1, ?2, ?3, ?4)"
    " ON CONFLICT (subject, day) DO UPDATE SET tokens = tokens + ?3, cost = cost + ?4"
)
_SET_RUNNING = "INSERT OR REPLACE INTO running (subject, worker, streams, seen) VALUES (?, ?, ?, ?)"


class SqliteLedger(SqliteStore, Ledger):
    def __init__(
        self, path: Path, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(path)
        self._database = Database(path, SCHEMA)
        self._now = now
        self._clock = clock
        self._turn = threading.Lock()
        self._usable_from = clock()
        self._missed = 0
        self._worker = random_id("worker_")
        self._mine: Counter[str] = Counter()  #: running answers of this process
        self._mine_lock = threading.Lock()
        self._pulse: threading.Thread | None = None

    def enter(self, subjects: Sequence[LimitedSubject]) -> Decision:
        streaming = [subject.id for subject in subjects if subject.limits.streams]
        counted: list[str] = []

        def decide(database: sqlite3.Connection) -> Decision:
            before = self._seen(database, subjects)
            if reached := subjects_at_limit(subjects, before):
                return Decision(before, reached, None)
            for subject in subjects:
                if subject.limits.requests_per_minute:
                    _spend(database, subject.id, before.now, requests=1)
            counted.extend(streaming)
            self._count(streaming, 1)
            self._write_running(database, streaming)
            return Decision(before, (), Booking(tuple(subjects), before.now))

        books = any(subject.limits.requests_per_minute or subject.limits.streams for subject in subjects)
        try:
            decision = self._attempt(self._database.transaction if books else self._database.read, decide)
        except StorageError:
            self._count(counted, -1)
            raise
        if streaming:
            self._keep_beating()
        return decision

    def leave(self, booking: Booking, tokens: int, cost: float, *, refused: bool = False) -> None:
        subjects, second = booking.subjects, int(booking.at)
        streaming = [subject.id for subject in subjects if subject.limits.streams]
        counting = [subject.id for subject in subjects if subject.limits.counts_tokens and (tokens or cost)]
        booked = [subject.id for subject in subjects if subject.limits.requests_per_minute]
        refunded = [(subject, second) for subject in booked] if refused else []
        self._count(streaming, -1)

        def book(database: sqlite3.Connection) -> None:
            now = self._now()
            database.executemany(_TAKE_FROM_SECOND, refunded)
            for subject in counting:
                _spend(database, subject, now, tokens=tokens)
                database.execute("DELETE FROM day WHERE subject = ? AND day < ?", (subject, day_of(now)))
                database.execute(_ADD_TO_DAY, (subject, day_of(now), tokens, cost))
            self._write_running(database, streaming)

        if streaming or counting or refunded:
            self._attempt(self._database.transaction, book)

    def look(self, subjects: Sequence[LimitedSubject]) -> UsageSnapshot:
        return self._attempt(self._database.read, lambda database: self._seen(database, subjects))

    def _seen(self, database: sqlite3.Connection, subjects: Sequence[LimitedSubject]) -> UsageSnapshot:
        now = self._now()
        return UsageSnapshot([self._spent(database, subject.id, now) for subject in subjects], now)

    def _spent(self, database: sqlite3.Connection, subject: str, now: float) -> Spent:
        """Rows with a time in the future do not count: the clock was set back after they were written."""
        seconds = database.execute(_SECONDS, (subject, now - COUNTED_FOR, now))
        tokens, cost = database.execute(_DAY, (subject, day_of(now))).fetchone() or (0, 0.0)
        alive = (now - DEAD_AFTER, now + DEAD_AFTER)
        (others,) = database.execute(_OTHERS, (subject, self._worker, *alive)).fetchone()
        return Spent(tuple(map(Second._make, seconds)), tokens, cost, others + self._mine[subject])

    # --- running answers -----------------------------------------------------------------------------

    def _count(self, subjects: Sequence[str], change: int) -> None:
        with self._mine_lock:
            for subject in subjects:
                self._mine[subject] += change

    def _write_running(self, database: sqlite3.Connection, subjects: Sequence[str]) -> None:
        now = self._now()
        rows = [(subject, self._worker, self._mine[subject], now) for subject in subjects]
        database.executemany(_SET_RUNNING, rows)
        database.executemany(
            "DELETE FROM running WHERE subject = ? AND (streams = 0 OR seen < ?)",
            [(subject, now - DEAD_AFTER) for subject in subjects],
        )

    def beat(self) -> None:
        """Write again that this worker's answers are still running."""
        with self._mine_lock:
            busy = [subject for subject, number in self._mine.items() if number]
        if busy:
            with suppress(StorageError):  # the next beat writes the same
                self._attempt(self._database.transaction, lambda db: self._write_running(db, busy))

    def _keep_beating(self) -> None:
        with self._mine_lock:
            if self._pulse is None:
                self._pulse = call_periodically(self, SqliteLedger.beat, BETWEEN_BEATS)

    # --- failures ------------------------------------------------------------------------------------

    def _attempt(self, run: Callable[[Work[T]], T], work: Work[T]) -> T:
        with self._turn:  # threads that waited here during a failure do not try the file too
            if self._clock() < self._usable_from:
                self._missed += 1
                raise StorageUnavailable(f"{self.location} failed a moment ago and is not used for a while")
            try:
                return run(work)
            except StorageError as error:
                told = {"reason": error.reason, "missed_before": self._missed}
                log.warning("limits not enforced: the ledger cannot be read or written", extra=told)
                self._missed, self._usable_from = 0, self._clock() + PAUSE_AFTER_FAILURE
                raise


def _spend(
    database: sqlite3.Connection, subject: str, now: float, *, requests: int = 0, tokens: int = 0
) -> None:
    expired = "DELETE FROM second WHERE subject = ? AND (start <= ? OR start > ?)"
    database.execute(expired, (subject, now - COUNTED_FOR, now))
    database.execute(_ADD_TO_SECOND, (subject, int(now), requests, tokens))
