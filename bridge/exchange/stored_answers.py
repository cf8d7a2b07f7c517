"""Stored answers, and requests that continue them, for protocols that have them.

All workers share the store, so each worker can report an answer that another worker produces.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from bridge.errors import InternalError, InvalidRequest, TooBusy, UnknownAnswer
from bridge.gemini.conversation import digest
from bridge.gemini.types import JsonObject
from bridge.observe.record import Record
from bridge.protocols.base import UNFINISHED_STATUSES, AnswerStoring, PastTurn
from bridge.state.answer_store import Admit, AnswerStore, KeptAnswer
from bridge.state.errors import StorageError, StorageUnavailable

log = logging.getLogger(__name__)

#: A background answer counts as failed if its worker has not touched it for so many seconds.
LOST_AFTER = 60.0

AWAY = (
    "The bridge cannot reach its stored answers and conversations at the moment; try again in a few seconds"
)
AWAY_RETRY_AFTER = 5.0
#: Counted in the record, and named in the response header, if the answer is not stored although it should be.
NOT_STORED = "answer_not_stored"

Keep = Callable[[JsonObject], None]


@contextmanager
def store_errors_translated() -> Iterator[None]:
    try:
        yield
    except StorageUnavailable as error:
        log.warning("answer store not usable", extra={"reason": error.reason})
        raise TooBusy(AWAY, retry_after=AWAY_RETRY_AFTER) from None
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
        with store_errors_translated():
            return self.storing.resolve_references(body, _Items(self))

    def resumed(self, body: JsonObject) -> ResumedChain:
        previous = self.storing.previous_id(body)
        if previous is None:
            return ResumedChain(body)
        with store_errors_translated():
            ours = self._is_ours(previous)
            turns = self.store.chain(self.owner, previous, self.admit) if ours else None
            conversation = self.store.conversation(previous)
        if turns is None:
            field = self.storing.previous_field
            raise self.storing.not_found(f"{field}: there is no stored answer {previous!r}", param=field)
        if any(turn.answer.get("conversation") for turn in turns):
            field = self.storing.previous_field
            problem = (
                f"{field}: {previous!r} continues a conversation; send `conversation` with its id instead"
            )
            raise InvalidRequest(problem, param=field)
        past = [PastTurn(turn.question, turn.answer) for turn in turns]
        root = digest(self.owner, "answer", turns[0].id)  # the id for answers stored without a conversation
        return ResumedChain(self.storing.with_history(body, past), conversation or root)

    def _is_ours(self, answer_id: str) -> bool:
        """Whether this protocol stored the answer: other protocols store another format."""
        return answer_id.startswith(self.storing.id_prefix)

    def keeping(self, body: JsonObject, record: Record) -> Keep | None:
        """A function that stores the answer to this request; None if the answer is not stored."""
        if not self.storing.should_store(body):
            return None
        if self.store.away:
            if self.storing.is_background(body):
                raise TooBusy(AWAY, retry_after=AWAY_RETRY_AFTER)
            record.notes[NOT_STORED] += 1
            return None
        question, previous = self.storing.input_items(body), self.storing.previous_id(body)

        def keep(answer: JsonObject) -> None:
            try:
                self.store.keep(self.owner, dict(answer), question, previous, record.conversation)
            except Exception as error:  # the client gets its answer even if storing fails
                log.warning("answer not stored", extra={"reason": type(error).__name__})
                record.notes[NOT_STORED] += 1

        return keep

    def update(self, answer: JsonObject) -> bool:
        """Store the current state of a background answer; false if it was cancelled or deleted, or if the
        store failed."""
        try:
            return self.store.update(self.owner, dict(answer))
        except StorageError as error:
            log.warning("answer not stored", extra={"reason": error.reason})
            return False

    def announce(self, announce: Callable[[], None]) -> None:
        """Announce the events of an answer; without events the client could not follow it."""
        with store_errors_translated():
            announce()

    def is_deleted(self, answer_id: str) -> bool:
        """Whether the answer was deleted; false if the store cannot be used."""
        try:
            return self.store.size(self.owner, answer_id) is None
        except StorageError:
            return False

    def size(self, answer_id: str) -> int:
        with store_errors_translated():
            size = self.store.size(self.owner, answer_id)
        if size is None:
            raise UnknownAnswer(f"There is no stored answer {answer_id!r}")
        return size

    def found(self, answer_id: str) -> KeptAnswer:
        self.admit(self.size(answer_id))
        with store_errors_translated():
            kept = self.store.find(self.owner, answer_id) if self._is_ours(answer_id) else None
        if kept is None:
            raise UnknownAnswer(f"There is no stored answer {answer_id!r}")
        return kept

    def shown(self, answer_id: str, query: Mapping[str, str]) -> Mapping[str, Any]:
        kept = self.found(answer_id)
        return self.storing.render(self.current(kept), kept.question, query)

    def current(self, kept: KeptAnswer) -> Mapping[str, Any]:
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
        with store_errors_translated():
            self.store.cancel(self.owner, answer_id)  # a worker that still produces it stops
            self.store.forget(self.owner, answer_id)

    def cancel(self, answer_id: str) -> Mapping[str, Any]:
        kept = self.found(answer_id)
        if not self.storing.is_cancellable(kept.answer):
            field = self.storing.id_field
            raise InvalidRequest("Only a running background answer can be cancelled", param=field)
        with store_errors_translated():
            self.store.cancel(self.owner, answer_id)
        return self.current(self.found(answer_id))


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
