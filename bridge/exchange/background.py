"""Background answers: produced after their request was answered, in a thread of their own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from bridge.errors import BridgeError, ClientDisconnected, TooBusy
from bridge.exchange.conversations import StoredTurn
from bridge.exchange.exchange import Exchange
from bridge.exchange.stored_answers import AnswerRecorder
from bridge.gemini.types import JsonObject
from bridge.observe.record import Record
from bridge.state.errors import StorageError
from bridge.state.event_store import EventBatch, EventStore

log = logging.getLogger(__name__)

CHECK_INTERVAL = 1.0  #: seconds between two checks whether a background answer is still wanted
MOST_IN_BACKGROUND = 16
WRITE_INTERVAL = 0.15  #: seconds for which events are collected before they are stored
LARGEST_BATCH = 256 * 1024  #: bytes of events that are stored without waiting for more


class _StillWanted:
    """Checks in the store, once per CHECK_INTERVAL, whether a background answer is still wanted."""

    def __init__(self, recorder: AnswerRecorder, answer_id: str) -> None:
        self._recorder = recorder
        self._answer_id = answer_id
        self._checked = float("-inf")

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._checked < CHECK_INTERVAL:
            return True
        self._checked = now
        try:
            return self._recorder.store.touch(self._recorder.owner, self._answer_id)
        except StorageError:  # store unavailable: assume that the answer is still wanted
            return True


class EventLog:
    """Stores the events of one answer in batches, at most one batch per WRITE_INTERVAL unless it is large."""

    def __init__(self, store: EventStore, owner: str, answer_id: str) -> None:
        self._store = store
        self._owner = owner
        self._answer_id = answer_id
        self._lock = threading.Lock()
        self._first = 0  #: the position of the first event that is not stored
        self._count = 0
        self._pieces: list[bytes] = []
        self._timer: threading.Timer | None = None

    def announce(self) -> None:
        """Store that this answer has events. Raises StorageError."""
        self._store.append(self._owner, self._answer_id, EventBatch(0, 0, b""))

    def add(self, count: int, encoded: bytes) -> None:
        with self._lock:
            self._pieces.append(encoded)
            self._count += count
            if sum(map(len, self._pieces)) >= LARGEST_BATCH:
                self._write()
            elif self._timer is None:
                self._timer = threading.Timer(WRITE_INTERVAL, self._write_in_time)
                self._timer.daemon = True
                self._timer.start()

    def finish(self, pieces: Iterable[tuple[int, bytes]]) -> None:
        """Store all events; these are the last ones."""
        with self._lock:
            for count, encoded in pieces:
                self._pieces.append(encoded)
                self._count += count
            self._write(last=True)

    def drop(self) -> None:
        """Forget the events that are not stored yet."""
        with self._lock:
            self._pieces, self._count = [], 0

    def forget(self) -> None:
        """Delete the events: the answer was deleted."""
        try:
            self._store.forget(self._owner, self._answer_id)
        except StorageError as error:
            log.warning("events not deleted", extra={"reason": error.reason})

    def _write_in_time(self) -> None:
        with self._lock:
            self._timer = None
            self._write()

    def _write(self, last: bool = False) -> None:
        """Store the collected events. If the store fails, they stay and are stored with the next ones."""
        if not self._pieces and not last:
            return
        batch = EventBatch(self._first, self._count, b"".join(self._pieces), last)
        try:
            self._store.append(self._owner, self._answer_id, batch)
        except StorageError as error:
            log.warning("events not stored", extra={"reason": error.reason})
            return
        self._first, self._count, self._pieces = batch.end, 0, []


class Releasable(Protocol):
    def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BackgroundWork:
    """An answer to produce, with everything that its thread owns."""

    exchange: Exchange
    recorder: AnswerRecorder
    record: Record
    turn: StoredTurn
    memory: Releasable


class BackgroundAnswers:
    """Produces answers after their request was answered; each process runs a limited number at a time."""

    def __init__(self, events: EventStore) -> None:
        self._events = events
        self._slots = threading.BoundedSemaphore(MOST_IN_BACKGROUND)

    def begin(self, work: BackgroundWork) -> JsonObject:
        """Produce the answer in a thread of its own. Returns the answer before its first content."""
        with ExitStack() as resources:
            resources.callback(work.memory.release)
            resources.callback(work.exchange.close)
            pending = {**work.exchange.pending, "status": "queued"}
            work.turn.use(pending)
            work.recorder.size(pending["id"])  # raises if the answer was not stored: it could not be fetched
            if not self._slots.acquire(blocking=False):
                work.recorder.forget(pending["id"])
                raise TooBusy("Too many background answers are running; try again later")
            resources.callback(self._slots.release)
            events = EventLog(self._events, work.recorder.owner, pending["id"])
            if work.exchange.streaming:
                work.recorder.announce(events.announce)
            arguments = (work, pending, events, resources.pop_all())
            threading.Thread(target=self._run, args=arguments, daemon=True).start()
        return pending

    def _run(self, work: BackgroundWork, pending: JsonObject, events: EventLog, resources: ExitStack) -> None:
        produce = _produce_events if work.exchange.streaming else _produce_answer
        work.recorder.update({**pending, "status": "in_progress"})
        try:
            produce(work, pending, events)
        except ClientDisconnected:
            events.drop()  # cancelled or deleted
        except Exception:
            log.exception("background answer failed", extra={"request_id": work.record.request_id})
        finally:
            if work.exchange.streaming and work.recorder.is_deleted(pending["id"]):
                events.forget()
            resources.close()
            work.record.tell()


def _produce_answer(work: BackgroundWork, pending: JsonObject, _events: EventLog) -> None:
    try:
        answer = work.exchange.body(_StillWanted(work.recorder, pending["id"]))
    except ClientDisconnected:
        raise
    except BridgeError as error:  # the answer itself reports the error
        answer = work.exchange.answer or work.recorder.storing.as_failed(pending, error)
    _finish(work, answer)


def _produce_events(work: BackgroundWork, pending: JsonObject, events: EventLog) -> None:
    """The answer is stored before its last events, because a client may then request it at once."""
    last: list[tuple[int, bytes]] = []
    for count, encoded in work.exchange.encoded_batches(_StillWanted(work.recorder, pending["id"])):
        if work.exchange.answer is None:
            events.add(count, encoded)
        else:
            last.append((count, encoded))
    if work.exchange.answer is not None and _finish(work, work.exchange.answer):
        events.finish(last)
    else:
        events.drop()


def _finish(work: BackgroundWork, answer: JsonObject) -> bool:
    wanted = work.recorder.update(answer)
    if wanted and work.turn.add is not None:
        work.turn.add(answer)
    return wanted
