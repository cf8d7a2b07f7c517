"""Conversations that clients create and name, for protocols that have them, and the turns that use them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bridge.errors import UnknownAnswer
from bridge.exchange.stored_answers import AnswerRecorder, Keep, store_errors_translated
from bridge.gemini.conversation import digest
from bridge.gemini.types import JsonObject
from bridge.ids_and_clock import IdsAndClock
from bridge.observe.record import Record
from bridge.protocols.base import UNFINISHED_STATUSES, ConversationRules
from bridge.state.answer_store import Admit
from bridge.state.conversation_store import ConversationStore, KeptConversation
from bridge.state.errors import StorageError

log = logging.getLogger(__name__)

#: Answers with these statuses add nothing to their conversation.
_NOT_ADDED = (*UNFINISHED_STATUSES, "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class ConversationRecorder:
    """The conversations of one owner."""

    rules: ConversationRules
    store: ConversationStore
    owner: str
    admit: Admit  #: called with the size before the items are loaded

    def create(self, body: JsonObject, ids_and_clock: IdsAndClock) -> JsonObject:
        metadata, items = self.rules.metadata(body), self.rules.new_items(body)
        conversation_id = ids_and_clock.new_id(self.rules.id_prefix)
        conversation = KeptConversation(conversation_id, int(ids_and_clock.now()), metadata)
        with store_errors_translated():
            self.store.create(self.owner, conversation, items)
        return self._shown(conversation)

    def show(self, conversation_id: str) -> JsonObject:
        with store_errors_translated():
            found = self.store.find(self.owner, conversation_id)
        if found is None:
            raise _unknown(conversation_id)
        return self._shown(found)

    def update(self, conversation_id: str, body: JsonObject) -> JsonObject:
        metadata = self.rules.metadata(body)
        with store_errors_translated():
            found = self.store.update(self.owner, conversation_id, metadata)
        if not found:
            raise _unknown(conversation_id)
        return self.show(conversation_id)

    def forget(self, conversation_id: str) -> JsonObject:
        with store_errors_translated():
            found = self.store.forget(self.owner, conversation_id)
        if not found:
            raise _unknown(conversation_id)
        return self.rules.deletion_body(conversation_id)

    def items(self, conversation_id: str, param: str | None = None) -> list[dict[str, Any]]:
        with store_errors_translated():
            size = self.store.size(self.owner, conversation_id)
        if size is None:
            raise _unknown(conversation_id, param)
        self.admit(size)
        with store_errors_translated():
            return self.store.items(self.owner, conversation_id)

    def add(self, conversation_id: str, body: JsonObject) -> list[dict[str, Any]]:
        """Add the client's items; returns them as they are stored."""
        items = self.rules.new_items(body)
        with store_errors_translated():
            found = self.store.append(self.owner, conversation_id, items)
        if not found:
            raise _unknown(conversation_id)
        return items

    def item(self, conversation_id: str, item_id: str) -> JsonObject:
        found = next((each for each in self.items(conversation_id) if each["id"] == item_id), None)
        if found is None:
            raise _unknown_item(item_id)
        return found

    def forget_item(self, conversation_id: str, item_id: str) -> JsonObject:
        shown = self.show(conversation_id)
        with store_errors_translated():
            found = self.store.forget_item(self.owner, conversation_id, item_id)
        if not found:
            raise _unknown_item(item_id)
        return shown

    def adding(self, conversation_id: str, body: JsonObject) -> Keep:
        """A function that adds the input and the finished answer to the conversation."""

        def add(answer: JsonObject) -> None:
            if answer["status"] in _NOT_ADDED:
                return
            try:
                added = self.store.append(self.owner, conversation_id, self.rules.added(body, answer))
            except StorageError as error:  # the client gets its answer even if storing fails
                log.warning("answer not added to its conversation", extra={"reason": error.reason})
            else:
                if not added:
                    log.info("conversation deleted before its answer was complete")

        return add

    def _shown(self, conversation: KeptConversation) -> JsonObject:
        return self.rules.body(conversation.id, conversation.created, conversation.metadata)


def _unknown(conversation_id: str, param: str | None = None) -> UnknownAnswer:
    return UnknownAnswer(f"There is no conversation {conversation_id!r}", param=param)


def _unknown_item(item_id: str) -> UnknownAnswer:
    return UnknownAnswer(f"The conversation has no item {item_id!r}")


class StoredTurn(NamedTuple):
    """A request with its stored history, and what happens to its answer."""

    body: JsonObject
    chain: str = ""  #: the id of the stored conversation that the request continues
    keep: Keep | None = None  #: stores the answer
    add: Keep | None = None  #: adds the answer to the conversation that the request names

    def use(self, answer: JsonObject) -> None:
        for each in self._uses():
            each(answer)

    @property
    def uses_answer(self) -> bool:
        return bool(self._uses())

    def _uses(self) -> Sequence[Keep]:
        return [each for each in (self.keep, self.add) if each is not None]


def stored_turn(
    recorder: AnswerRecorder, conversations: ConversationRecorder | None, body: JsonObject, record: Record
) -> StoredTurn:
    body = recorder.dereferenced(body)
    named = None if conversations is None else conversations.rules.named(body)
    if conversations is None or named is None:
        resumed = recorder.resumed(body)
        return StoredTurn(resumed.body, resumed.conversation, recorder.keeping(body, record))
    items = conversations.items(named, param="conversation")
    asked = conversations.rules.identified(body)
    return StoredTurn(
        conversations.rules.with_items(asked, items),
        digest(recorder.owner, "conversation", named),
        recorder.keeping(asked, record),
        conversations.adding(named, asked),
    )
