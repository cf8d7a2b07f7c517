"""HTTP routes for conversations and their items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flask import Blueprint, Response
from marshmallow import Schema

from bridge.exchange.conversations import ConversationRecorder
from bridge.gemini.types import JsonObject
from bridge.protocols.base import ConversationRules
from bridge.protocols.envelope import validated
from bridge.server.client_socket import ClientSocket
from bridge.state.answer_store import Admit
from bridge.web.request import Request, current_request
from bridge.web.routes import ProtocolServing, json_body, json_response
from bridge.web.stored_answers import list_of, page_of

View = Callable[..., Response]


def make_conversations_blueprint(serving: ProtocolServing, rules: ConversationRules) -> Blueprint:
    blueprint = Blueprint(f"{serving.protocol.name}_conversations", __name__)
    views = ConversationViews(serving, rules)

    def create(recorder: ConversationRecorder, body: JsonObject) -> JsonObject:
        return recorder.create(body, serving.services.ids_and_clock)

    one = f"{rules.path}/<conversation_id>"
    items, item = f"{one}/items", f"{one}/items/<item_id>"
    blueprint.post(rules.path, endpoint="create")(views.writing(rules.create_schema, create))
    blueprint.get(one, endpoint="show")(views.reading(ConversationRecorder.show))
    update = views.writing(rules.update_schema, ConversationRecorder.update)
    blueprint.post(one, endpoint="update")(update)
    blueprint.delete(one, endpoint="delete")(views.reading(ConversationRecorder.forget))
    blueprint.post(items, endpoint="add")(views.writing(rules.add_schema, _add))
    blueprint.get(items, endpoint="list")(views.reading(_list_items))
    blueprint.get(item, endpoint="show_item")(views.reading(ConversationRecorder.item))
    blueprint.delete(item, endpoint="delete_item")(views.reading(ConversationRecorder.forget_item))
    return blueprint


def _list_items(recorder: ConversationRecorder, conversation_id: str) -> JsonObject:
    return page_of(recorder.items(conversation_id))


def _add(recorder: ConversationRecorder, conversation_id: str, body: JsonObject) -> JsonObject:
    return list_of(recorder.add(conversation_id, body), more=False)


@dataclass(frozen=True, slots=True)
class ConversationViews:
    """Makes views of functions that use one owner's conversations."""

    serving: ProtocolServing
    rules: ConversationRules

    def reading(self, answer: Callable[..., JsonObject]) -> View:
        def view(**ids: str) -> Response:
            request = current_request()
            memory = self.serving.client_side.slots.reserve_memory()
            request.resources.callback(memory.release)
            return json_response(answer(self._recorder(request, memory.add), **ids))

        return view

    def writing(self, schema: Schema, answer: Callable[..., JsonObject]) -> View:
        def view(**ids: str) -> Response:
            request = current_request()
            slot = self.serving.take_slot(request)
            recorder = self._recorder(request, slot.memory.add)
            client = ClientSocket(request.environ)
            body = validated(schema, json_body(request, client, self.serving.client_side, slot))
            return json_response(answer(recorder, body=body, **ids))

        return view

    def _recorder(self, request: Request, admit: Admit) -> ConversationRecorder:
        request.record.protocol = self.serving.protocol.name
        owner = request.identity.owner
        return ConversationRecorder(self.rules, self.serving.stores.conversations, owner, admit)
