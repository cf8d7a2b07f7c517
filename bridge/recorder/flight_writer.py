"""The thread that writes flights. It never slows down a request and never makes one fail: a request only puts
its tape into a bounded queue. What does not fit, or cannot be written, is dropped and counted."""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridge.ids_and_clock import random_id
from bridge.observe import metrics
from bridge.observe.record import Record
from bridge.recorder.flight import GEMINI_REQUEST, FlightWriting, Line, decode, encode
from bridge.recorder.prefix import prefix_line
from bridge.recorder.tape import Tape
from bridge.state.errors import StorageError
from bridge.state.flight_store import FlightRow, FlightStore

log = logging.getLogger(__name__)

MOST_WAITING = 64
#: Bytes of the client bodies of all waiting tapes.
MOST_BYTES = 64 << 20
BETWEEN_WARNINGS = 60.0
#: Seconds between two deletions of what has expired.
TIDYING = 600.0
#: Seconds that the last flights may delay the end of the process.
LAST_WORDS = 3.0
LONGEST_NAME = 128


class _Ended(NamedTuple):
    """A request that has ended."""

    tape: Tape
    record: Record
    at: float
    reason: str


class FlightWriter:
    def __init__(self, store: FlightStore, node: str, secrets: Sequence[str]) -> None:
        self._store = store
        self._node = node
        self._secrets = secrets
        self._waiting: queue.SimpleQueue[_Ended | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bytes = 0
        self._count = 0
        self._dropped = 0
        self._warned_at = float("-inf")
        self._tidy_at = 0.0

    def put(self, tape: Tape, record: Record, reason: str) -> None:
        with self._lock:
            full = self._count >= MOST_WAITING or (self._count and self._bytes + tape.size > MOST_BYTES)
            if not full:
                self._count, self._bytes = self._count + 1, self._bytes + tape.size
            if self._thread is None:
                self._start()
        if full:
            tape.clear()
            self._drop("the queue is full")
        else:
            self._waiting.put(_Ended(tape, record, time.time() - record.seconds, reason))

    def close(self) -> None:
        """Write the rest of the queue, for a few seconds at most."""
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join(LAST_WORDS)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="flights", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    # --- in the thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            try:
                ended = self._waiting.get(timeout=TIDYING)
            except queue.Empty:
                self._tidy()
                continue
            if ended is None:
                return
            self._write(ended)
            self._tidy()

    def _write(self, ended: _Ended) -> None:
        try:
            row = self._row(ended)
            data = encode(self._lines(ended, row), self._secrets)
            self._store.keep(row._replace(bytes=len(data)), data)
        except StorageError as error:
            self._drop(error.reason)
        except Exception as error:  # its message may quote the request
            self._drop(type(error).__name__)
        finally:
            with self._lock:
                self._count, self._bytes = self._count - 1, self._bytes - ended.tape.size
            ended.tape.clear()

    def _row(self, ended: _Ended) -> FlightRow:
        record = ended.record
        return FlightRow(
            random_id("flight_"),
            ended.at,
            record.request_id,
            record.key or "",
            _name(record.client),
            record.conversation,
            record.protocol or "",
            _name(record.model),
            record.status,
            record.outcome,
            record.error or "",
            ended.tape.recording.level,
            ended.reason,
            self._node,
            0,
        )

    def _lines(self, ended: _Ended, row: FlightRow) -> Iterable[Line]:
        lines = list(FlightWriting(ended.tape, ended.record).lines(row))
        sent = [line for line in lines if line["stage"] == GEMINI_REQUEST]
        previous = self._store.before(row) if sent and row.conversation else None
        if previous is not None:
            line = prefix_line(previous[0].id, decode(previous[1]), sent[-1])
            lines += [line] if line else []
        return lines

    def _tidy(self) -> None:
        if time.monotonic() < self._tidy_at:
            return
        self._tidy_at = time.monotonic() + TIDYING
        try:
            self._store.tidy()
        except StorageError as error:
            self._warn("old flights cannot be deleted", error.reason)

    def _drop(self, reason: str) -> None:
        metrics.flight_dropped()
        self._dropped += 1
        self._warn("flights dropped", reason)

    def _warn(self, message: str, reason: str) -> None:
        """Once a minute at most: a full disk may hold the log too."""
        if time.monotonic() - self._warned_at >= BETWEEN_WARNINGS:
            self._warned_at = time.monotonic()
            log.warning(message, extra={"reason": reason, "dropped_so_far": self._dropped})


def _name(chosen: str | None) -> str:
    """A client may choose the name, and a database may refuse some of its characters."""
    return "".join(sign if sign.isprintable() else "?" for sign in (chosen or "")[:LONGEST_NAME])
