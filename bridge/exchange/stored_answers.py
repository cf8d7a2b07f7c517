"""Answers that are kept, gone on from, and worked on in the background, for the protocols that have these.

The state they live in is shared by all workers, so any of them can answer for what another has begun.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
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

log = logging.getLogger(__name__)

#: A background answer whose worker has not been heard of for so long is given up.
LOST_AFTER = 60.0
BETWEEN_LOOKS = 1.0
MOST_IN_BACKGROUND = 16

Keep = Callable[[JsonObject], None]


@contextmanager
def _store_errors_translated() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        log.warning("answer store not usable", extra={"reason": type(error).__name__})
        raise InternalError("The bridge's store of answers cannot be used; its log says why") from None


class ResumedChain(NamedTuple):
    """A request with what was said before it, and the conversation that this belongs to."""

    body: JsonObject
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class AnswerRecorder:
    """The stored answers of one owner, in one protocol."""

    storing: AnswerStoring
    store: AnswerStore
    owner: str
    admit: Admit  #: asked before anything large is loaded

    def dereferenced(self, body: JsonObject) -> JsonObject:
        """The request with the items that it only refers to."""
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
        root = digest(self.owner, "answer", turns[0].id)  # of answers that are older than this knowledge
        return ResumedChain(self.storing.with_history(body, past), conversation or root)

    def _is_ours(self, answer_id: str) -> bool:
        """An answer of another protocol has another form."""
        return answer_id.startswith(self.storing.id_prefix)

    def keeping(self, body: JsonObject, record: Record) -> Keep | None:
        """What keeps the answer to this request, or None if it shall not be kept."""
        if not self.storing.should_store(body):
            return None
        question, previous = self.storing.input_items(body), self.storing.previous_id(body)

        def keep(answer: JsonObject) -> None:
            try:
                self.store.keep(self.owner, dict(answer), question, previous, record.conversation)
            except Exception as error:  # whatever it is, the client is to have its answer
                log.warning("answer not stored", extra={"reason": type(error).__name__})

        return keep

    def update(self, answer: JsonObject) -> None:
        """A background answer as it stands now, unless nobody wants it any more."""
        try:
            self.store.update(self.owner, dict(answer))
        except (sqlite3.Error, OSError) as error:
            log.warning("answer not stored", extra={"reason": type(error).__name__})

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
        """The answer as it stands now. One that its worker left behind has failed."""
        working = kept.answer.get("status") in UNFINISHED_STATUSES
        if working and kept.cancelled:
            return {**kept.answer, "status": "cancelled"}
        if working and self.store.now() - kept.touched > LOST_AFTER:
            error = InternalError("The bridge stopped while it worked on this answer.")
            return self.storing.as_failed(kept.answer, error)
        return kept.answer

    def forget(self, answer_id: str) -> None:
        self.size(answer_id)  # whether it is there
        with _store_errors_translated():
            self.store.cancel(self.owner, answer_id)  # whoever still works on it learns that it is not wanted
            self.store.forget(self.owner, answer_id)

    def cancel(self, answer_id: str) -> Mapping[str, Any]:
        kept = self.found(answer_id)
        if not self.storing.is_cancellable(kept.answer):
            field = self.storing.id_field
            raise InvalidRequest("Only an answer at work in the background can be cancelled", param=field)
        with _store_errors_translated():
            self.store.cancel(self.owner, answer_id)
        return self._current(self.found(answer_id))


class _Items:
    """Stored items by their ids. The answer that has one is loaded once for all of them, but each reference
    is admitted: it goes to the upstream as often as it is referred to."""

    def __init__(self, recorder: AnswerRecorder) -> None:
        self._keeper = recorder
        self._found: dict[str, tuple[JsonObject, int]] = {}  #: with the bytes of their answers

    def __call__(self, item_id: str) -> JsonObject | None:
        if item_id in self._found:
            item, size = self._found[item_id]
            self._keeper.admit(size)
            return item
        sizes: list[int] = []

        def admit(size: int) -> None:
            self._keeper.admit(size)
            sizes.append(size)

        items = self._keeper.store.items_beside(self._keeper.owner, item_id, admit)
        self._found.update({item["id"]: (item, sizes[0]) for item in items if "id" in item})
        return self._found.get(item_id, (None, 0))[0]


class _Watch:
    """Whether a background answer is still wanted, asked of the store now and then."""

    def __init__(self, recorder: AnswerRecorder, answer_id: str) -> None:
        self._keeper = recorder
        self._answer_id = answer_id
        self._asked = 0.0

    def __call__(self) -> bool:
        now = self._keeper.store.now()
        if now - self._asked < BETWEEN_LOOKS:
            return True
        self._asked = now
        try:
            return self._keeper.store.touch(self._keeper.owner, self._answer_id)
        except (sqlite3.Error, OSError):  # who cannot be asked has not said no
            return True


class Releasable(Protocol):
    def release(self) -> None: ...


class BackgroundAnswers:
    """Answers that are worked on after their request has been answered, a bounded number in each process."""

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
        """Work on the answer in a thread of its own, which owns the exchange, the record and the memory."""
        with ExitStack() as resources:
            resources.callback(memory.release)
            resources.callback(exchange.close)
            pending = {**exchange.pending, "status": "queued"}
            keep(pending)
            recorder.size(pending["id"])  # an answer that could not be stored could never be asked for
            if not self._slots.acquire(blocking=False):
                recorder.forget(pending["id"])
                raise TooBusy("Too many answers are being worked on in the background")
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
            recorder.update(exchange.body(_Watch(recorder, pending["id"])))
        except ClientDisconnected:
            pass  # cancelled or forgotten: the store knows
        except BridgeError as error:  # told in the answer, in the protocol's own words
            recorder.update(exchange.answer or recorder.storing.as_failed(pending, error))
        except Exception:
            log.exception("background answer failed", extra={"request_id": record.request_id})
        finally:
            resources.close()
            record.tell()
            self._slots.release()
