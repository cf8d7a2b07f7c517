"""What was spent, in an SQLite file shared by the workers of one machine.

Seconds and days are sums that only grow, and rows that no longer count are dropped on the way. Of the answers
on their way each worker writes its own number, again every few seconds while there are any: the number of a
worker that was killed goes out of date by itself, and one that could not be written is mended by the next.
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

from bridge.access.limits import Ledger, LedgerUnusable, Sight, Subject
from bridge.access.rate_window import LASTS, Second, Spent, day_of
from bridge.ids_and_clock import random_id
from bridge.periodic_thread import call_periodically
from bridge.state.database import Database, Work

log = logging.getLogger(__name__)
T = TypeVar("T")

LIMITS_FILE = "limits.sqlite3"

BETWEEN_BEATS = 3.0
#: A worker that has not been heard of for so long is dead, and so are its answers.
DEAD_AFTER = 10.0
#: A file that could not be used is left alone so long: nobody shall wait for it again and again.
PAUSE_AFTER_FAILURE = 5.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS second (
    subject TEXT, start INTEGER, requests INTEGER NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (subject, start)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS day (
    subject TEXT, day INTEGER, tokens INTEGER NOT NULL, cost REAL NOT NULL, PRIMARY KEY (subject, day)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS running (
    subject TEXT, worker TEXT, streams INTEGER NOT NULL, seen REAL NOT NULL, PRIMARY KEY (subject, worker)
) WITHOUT ROWID;
"""
_SECONDS = (
    "SELECT start, requests, tokens FROM second WHERE subject = ? AND start > ? AND start <= ? ORDER BY start"
)
_DAY = "SELECT tokens, cost FROM day WHERE subject = ? AND day = ?"
_OTHERS = (
    "SELECT COALESCE(SUM(streams), 0) FROM running WHERE subject = ? AND worker <> ? AND seen BETWEEN ? AND ?"
)
_ADD_TO_SECOND = (
    "INSERT INTO second VALUES (?1, ?2, ?3, ?4) ON CONFLICT (subject, start)"
    " DO UPDATE SET requests = requests + ?3, tokens = tokens + ?4"
)
_TAKE_FROM_SECOND = (
    "UPDATE second SET requests = requests - 1 WHERE subject = ? AND start = ? AND requests > 0"
)
_ADD_TO_DAY = (
    "INSERT INTO day VALUES (?1, ?2, ?3, ?4) ON CONFLICT (subject, day)"
    " DO UPDATE SET tokens = tokens + ?3, cost = cost + ?4"
)
_SET_RUNNING = "INSERT OR REPLACE INTO running VALUES (?, ?, ?, ?)"


class SqliteLedger(Ledger):
    def __init__(
        self, path: Path, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = Database(path, _SCHEMA)
        self._now = now
        self._clock = clock
        self._turn = threading.Lock()
        self._usable_from = clock()
        self._missed = 0
        self._worker = random_id("worker_")
        self._mine: Counter[str] = Counter()  #: answers on their way in this process
        self._mine_lock = threading.Lock()
        self._pulse: threading.Thread | None = None

    def enter(self, subjects: Sequence[Subject], passes: Callable[[Sight], bool]) -> Sight:
        streaming = [subject.id for subject in subjects if subject.limits.streams]
        booked: list[str] = []

        def book(database: sqlite3.Connection) -> Sight:
            sight = self._seen(database, subjects)
            if passes(sight):
                for subject in subjects:
                    if subject.limits.requests_per_minute:
                        _spend(database, subject.id, sight.now, requests=1)
                booked.extend(streaming)
                self._count(streaming, 1)
                self._write_running(database, streaming)
            return sight

        books = any(subject.limits.requests_per_minute or subject.limits.streams for subject in subjects)
        try:
            sight = self._attempt(self._database.transaction if books else self._database.read, book)
        except LedgerUnusable:
            self._count(booked, -1)
            raise
        if streaming:
            self._keep_beating()
        return sight

    def leave(
        self, subjects: Sequence[Subject], tokens: int, cost: float, refused_at: float | None = None
    ) -> None:
        streaming = [subject.id for subject in subjects if subject.limits.streams]
        counting = [subject.id for subject in subjects if subject.limits.counts_tokens and (tokens or cost)]
        booked = [subject.id for subject in subjects if subject.limits.requests_per_minute]
        refunded = [] if refused_at is None else [(subject, int(refused_at)) for subject in booked]
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

    def look(self, subjects: Sequence[Subject]) -> Sight:
        return self._attempt(self._database.read, lambda database: self._seen(database, subjects))

    def _seen(self, database: sqlite3.Connection, subjects: Sequence[Subject]) -> Sight:
        now = self._now()
        return Sight([self._spent(database, subject.id, now) for subject in subjects], now)

    def _spent(self, database: sqlite3.Connection, subject: str, now: float) -> Spent:
        """What lies in the future was written before somebody set the clock back, and does not count."""
        seconds = database.execute(_SECONDS, (subject, now - LASTS, now))
        tokens, cost = database.execute(_DAY, (subject, day_of(now))).fetchone() or (0, 0.0)
        heard = (now - DEAD_AFTER, now + DEAD_AFTER)
        (others,) = database.execute(_OTHERS, (subject, self._worker, *heard)).fetchone()
        return Spent(tuple(map(Second._make, seconds)), tokens, cost, others + self._mine[subject])

    # --- answers on their way ------------------------------------------------------------------------

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
        """Say that this worker's answers are still on their way."""
        with self._mine_lock:
            busy = [subject for subject, number in self._mine.items() if number]
        if busy:
            with suppress(LedgerUnusable):  # the next beat will do
                self._attempt(self._database.transaction, lambda db: self._write_running(db, busy))

    def _keep_beating(self) -> None:
        with self._mine_lock:
            if self._pulse is None:
                self._pulse = call_periodically(self, SqliteLedger.beat, BETWEEN_BEATS)

    # --- failures ------------------------------------------------------------------------------------

    def _attempt(self, run: Callable[[Work[T]], T], work: Work[T]) -> T:
        with self._turn:  # whoever waited here while the file failed does not try it too
            if self._clock() < self._usable_from:
                self._missed += 1
                raise LedgerUnusable
            try:
                return run(work)
            except (sqlite3.Error, OSError) as error:
                reason = {"reason": type(error).__name__, "missed_before": self._missed}
                log.warning("limits not enforced: what was spent cannot be read or written", extra=reason)
                self._missed, self._usable_from = 0, self._clock() + PAUSE_AFTER_FAILURE
                raise LedgerUnusable from None


def _spend(
    database: sqlite3.Connection, subject: str, now: float, *, requests: int = 0, tokens: int = 0
) -> None:
    forgotten = "DELETE FROM second WHERE subject = ? AND (start <= ? OR start > ?)"
    database.execute(forgotten, (subject, now - LASTS, now))
    database.execute(_ADD_TO_SECOND, (subject, int(now), requests, tokens))
