"""Stored answers, conversations that continue them, and background answers, for protocols that have them.

All workers share the store, so each worker can report an answer that another worker produces.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from bridge.errors import (
    BridgeError,
    ClientDisconnected,
    InternalError,
    InvalidRequest,
    TooBusy,
    UnknownAnswer,
)
from bridge.exchange.exchange import Exchange
from bridge.gemini.conversation import digest
from bridge.gemini.types import JsonObject
from bridge.observe.record import Record
from bridge.protocols.base import UNFINISHED_STATUSES, AnswerStoring, PastTurn
from bridge.state.answer_store import Admit, AnswerStore, KeptAnswer
from bridge.state.errors import StorageError

log = logging.getLogger(__name__)

#: A background answer counts as failed if its worker has not touched it for so many seconds.
LOST_AFTER = 60.0
CHECK_INTERVAL = 1.0  #: seconds between two checks whether a background answer is still wanted
MOST_IN_BACKGROUND = 16

Keep = Callable[[JsonObject], None]


@contextmanager
def _store_errors_translated() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        log.warning("answer store not usable", extra={"reason": error.reason})
        raise InternalError("The bridge's store of answers cannot be used; its log says why") from None


class ResumedChain(NamedTuple):
    """A request with the earlier turns of its conversation, and the id of that conversation."""

    body: JsonObject
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class AnswerRecorder:
    """The stored answers of one owner, in one protocol."""

    storing: AnswerStoring
    store: AnswerStore
    owner: str
    admit: Admit  #: called with the size before a large answer is loaded

    def dereferenced(self, body: JsonObject) -> JsonObject:
        """The request with stored items in place of references to them."""
        with _store_errors_translated():
            return self.storing.resolve_references(body, _Items(self))

    def resumed(self, body: JsonObject) -> ResumedChain:
        previous = self.storing.previous_id(body)
        if previous is None:
            return ResumedChain(body)
        with _store_errors_translated():
            ours = self._is_ours(previous)
            turns = self.store.chain(self.owner, previous, self.admit) if ours else None
            conversation = self.store.conversation(previous)
        if turns is None:
            field = self.storing.previous_field
            raise self.storing.not_found(f"{field}: there is no stored answer {previous!r}", param=field)
        past = [PastTurn(turn.question, turn.answer) for turn in turns]
        root = digest(self.owner, "answer", turns[0].id)  # the id for answers stored without a conversation
        return ResumedChain(self.storing.with_history(body, past), conversation or root)

    def _is_ours(self, answer_id: str) -> bool:
        """Whether this protocol stored the answer: other protocols store another format."""
        return answer_id.startswith(self.storing.id_prefix)

    def keeping(self, body: JsonObject, record: Record) -> Keep | None:
        """A function that stores the answer to this request; None if the answer must not be stored."""
        if not self.storing.should_store(body):
            return None
        question, previous = self.storing.input_items(body), self.storing.previous_id(body)

        def keep(answer: JsonObject) -> None:
            try:
                self.store.keep(self.owner, dict(answer), question, previous, record.conversation)
            except Exception as error:  # the client gets its answer even if storing fails
                log.warning("answer not stored", extra={"reason": type(error).__name__})

        return keep

    def update(self, answer: JsonObject) -> None:
        """Store the current state of a background answer, unless it was cancelled or deleted."""
        try:
            self.store.update(self.owner, dict(answer))
        except StorageError as error:
            log.warning("answer not stored", extra={"reason": error.reason})

    def size(self, answer_id: str) -> int:
        with _store_errors_translated():
            size = self.store.size(self.owner, answer_id)
        if size is None:
            raise UnknownAnswer(f"There is no stored answer {answer_id!r}")
        return size

    def found(self, answer_id: str) -> KeptAnswer:
        self.admit(self.size(answer_id))
        with _store_errors_translated():
            kept = self.store.find(self.owner, answer_id) if self._is_ours(answer_id) else None
        if kept is None:
            raise UnknownAnswer(f"There is no stored answer {answer_id!r}")
        return kept

    def shown(self, answer_id: str, query: Mapping[str, str]) -> Mapping[str, Any]:
        kept = self.found(answer_id)
        return self.storing.render(self._current(kept), kept.question, query)

    def _current(self, kept: KeptAnswer) -> Mapping[str, Any]:
        """The current state of the answer; failed if its worker stopped."""
        working = kept.answer.get("status") in UNFINISHED_STATUSES
        if working and kept.cancelled:
            return {**kept.answer, "status": "cancelled"}
        if working and kept.idle > LOST_AFTER:
            error = InternalError("The bridge stopped before this answer was complete.")
            return self.storing.as_failed(kept.answer, error)
        return kept.answer

    def forget(self, answer_id: str) -> None:
        self.size(answer_id)  # raises UnknownAnswer
        with _store_errors_translated():
            self.store.cancel(self.owner, answer_id)  # a worker that still produces it stops
            self.store.forget(self.owner, answer_id)

    def cancel(self, answer_id: str) -> Mapping[str, Any]:
        kept = self.found(answer_id)
        if not self.storing.is_cancellable(kept.answer):
            field = self.storing.id_field
            raise InvalidRequest("Only a running background answer can be cancelled", param=field)
        with _store_errors_translated():
            self.store.cancel(self.owner, answer_id)
        return self._current(self.found(answer_id))


class _Items:
    """Finds stored items by id. An answer is loaded once for all of its items, but `admit` counts each
    reference: the item is sent to the upstream once for each reference to it."""

    def __init__(self, recorder: AnswerRecorder) -> None:
        self._recorder = recorder
        self._found: dict[str, tuple[JsonObject, int]] = {}  #: with the size of their answers

    def __call__(self, item_id: str) -> JsonObject | None:
        if item_id in self._found:
            item, size = self._found[item_id]
            self._recorder.admit(size)
            return item
        sizes: list[int] = []

        def admit(size: int) -> None:
            self._recorder.admit(size)
            sizes.append(size)

        items = self._recorder.store.items_beside(self._recorder.owner, item_id, admit)
        self._found.update({item["id"]: (item, sizes[0]) for item in items if "id" in item})
        return self._found.get(item_id, (None, 0))[0]


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


class Releasable(Protocol):
    def release(self) -> None: ...


class BackgroundAnswers:
    """Produces answers after their request was answered; each process runs a limited number at a time."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(MOST_IN_BACKGROUND)

    def begin(
        self,
        exchange: Exchange,
        recorder: AnswerRecorder,
        record: Record,
        keep: Keep,
        memory: Releasable,
    ) -> JsonObject:
        """Produce the answer in a thread of its own, which owns the exchange, the record and the memory."""
        with ExitStack() as resources:
            resources.callback(memory.release)
            resources.callback(exchange.close)
            pending = {**exchange.pending, "status": "queued"}
            keep(pending)
            recorder.size(pending["id"])  # raises if the answer was not stored: the client could not fetch it
            if not self._slots.acquire(blocking=False):
                recorder.forget(pending["id"])
                raise TooBusy("Too many background answers are running; try again later")
            arguments = (exchange, recorder, record, pending, resources.pop_all())
            threading.Thread(target=self._work, args=arguments, daemon=True).start()
        return pending

    def _work(
        self,
        exchange: Exchange,
        recorder: AnswerRecorder,
        record: Record,
        pending: Mapping[str, Any],
        resources: ExitStack,
    ) -> None:
        recorder.update({**pending, "status": "in_progress"})
        try:
            recorder.update(exchange.body(_StillWanted(recorder, pending["id"])))
        except ClientDisconnected:
            pass  # cancelled or deleted
        except BridgeError as error:  # the answer itself reports the error
            recorder.update(exchange.answer or recorder.storing.as_failed(pending, error))
        except Exception:
            log.exception("background answer failed", extra={"request_id": record.request_id})
        finally:
            resources.close()
            record.tell()
            self._slots.release()
