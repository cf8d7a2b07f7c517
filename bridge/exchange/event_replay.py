"""Sends the stored events of a background answer, and follows the answer until its end.

Any worker can do so: it reads the events from the store that all workers share.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bridge.errors import BridgeError, InternalError, InvalidRequest, UnknownAnswer
from bridge.exchange.drain import Drain
from bridge.exchange.exchange import Wanted
from bridge.exchange.stored_answers import LOST_AFTER, AnswerRecorder, store_errors_translated
from bridge.gemini.types import JsonObject
from bridge.protocols.base import UNFINISHED_STATUSES, Caller
from bridge.state.errors import StorageError
from bridge.state.event_store import EventBatch, EventStore

POLL_INTERVAL = 0.1  #: seconds between two looks for new events
CHECK_INTERVAL = 1.0  #: seconds between two looks whether the answer is over without its last event
#: A finished answer whose last events are missing for so many seconds lost them: its worker stopped.
EVENTS_LOST_AFTER = 3.0
DELETED = "The answer was deleted."


@dataclass(frozen=True, slots=True)
class EventReplay:
    recorder: AnswerRecorder
    events: EventStore
    drain: Drain
    heartbeat: float

    def forget(self, answer_id: str) -> None:
        """Delete an answer with its events."""
        self.recorder.forget(answer_id)
        with store_errors_translated():
            self.events.forget(self.recorder.owner, answer_id)

    def check(self, answer_id: str) -> None:
        """Raises if the caller has no such answer, or if the answer has no events."""
        self.recorder.size(answer_id)
        with store_errors_translated():
            exists = self.events.exists(self.recorder.owner, answer_id)
        if not exists:
            raise InvalidRequest(
                "stream: only an answer that was created with both background and stream set to true can be"
                " streamed again; request it without stream",
                param="stream",
            )

    def stream(self, answer_id: str, position: int, caller: Caller, wanted: Wanted) -> Iterator[bytes]:
        """The events from this position on. The last one is always a final event of the protocol, unless the
        client disconnects or this worker stops; in these cases the client can resume."""
        replay = self.recorder.storing.replay
        watch = _Watch(self.recorder, answer_id)
        last_write = time.monotonic()
        while wanted() and not self.drain.over:
            if (error := caller.interruption.error) is not None:  # for example a revoked key
                yield replay.ending(watch.failed(error), position, caller)
                return
            batches = self._read(answer_id, position)
            for batch in batches:
                yield batch.since(position)
                position = max(position, batch.end)
            if batches and batches[-1].last:
                return
            if batches:
                last_write = time.monotonic()
                continue
            if (answer := watch.ended()) is not None:
                yield replay.ending(answer, position, caller)
                return
            if time.monotonic() - last_write >= self.heartbeat:
                yield replay.keep_alive(caller)
                last_write = time.monotonic()
            time.sleep(POLL_INTERVAL)

    def _read(self, answer_id: str, position: int) -> list[EventBatch]:
        try:
            return self.events.read(self.recorder.owner, answer_id, position)
        except StorageError:  # the watch ends the stream if the store stays unusable
            return []


class _Watch:
    """Notices an answer that ends without its last event: cancelled, deleted, or its worker stopped."""

    def __init__(self, recorder: AnswerRecorder, answer_id: str) -> None:
        self._answer: JsonObject = recorder.found(answer_id).answer
        # The memory for the answer is booked now; `ended` replaces the answer.
        self._recorder = replace(recorder, admit=lambda _size: None)
        self._answer_id = answer_id
        self._checked = self._seen = time.monotonic()

    def ended(self) -> JsonObject | None:
        """The answer if it is over, or lost; a worker touches an answer about once a second."""
        now = time.monotonic()
        if now - self._checked < CHECK_INTERVAL:
            return None
        self._checked = now
        try:
            return self._ended()
        except UnknownAnswer:
            return self.failed(InternalError(DELETED))
        except (BridgeError, StorageError):
            if now - self._seen <= LOST_AFTER:
                return None
            return self.failed(InternalError("The bridge's store of answers cannot be used"))

    def _ended(self) -> JsonObject | None:
        progress = self._recorder.store.progress(self._recorder.owner, self._answer_id)
        self._seen = time.monotonic()
        if progress is not None and not progress.cancelled and progress.idle <= EVENTS_LOST_AFTER:
            return None
        self._answer = self._recorder.current(self._recorder.found(self._answer_id))
        return None if self._answer.get("status") in UNFINISHED_STATUSES else self._answer

    def failed(self, error: BridgeError) -> JsonObject:
        return self._recorder.storing.as_failed(self._answer, error)
