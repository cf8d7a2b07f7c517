"""HTTP routes for conversations and their items."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response
from marshmallow import Schema

from bridge.exchange.conversations import ConversationRecorder
from bridge.gemini.types import JsonObject
from bridge.ids_and_clock import IdsAndClock
from bridge.protocols.base import ConversationRules, Protocol
from bridge.server.app_keys import SLOT
from bridge.server.client_socket import ClientSocket
from bridge.state.conversation_store import ConversationStore
from bridge.web.request import current_request
from bridge.web.routes import ClientSide, json_body, json_response, validated
from bridge.web.stored_answers import list_of, page_of

View = Callable[..., Response]


def make_conversations_blueprint(
    protocol: Protocol,
    rules: ConversationRules,
    store: ConversationStore,
    ids_and_clock: IdsAndClock,
    client_side: ClientSide,
) -> Blueprint:
    blueprint = Blueprint(f"{protocol.name}_conversations", __name__)

    def reading(answer: Callable[..., JsonObject]) -> View:
        def view(**ids: str) -> Response:
            request = current_request()
            request.record.protocol = protocol.name
            memory = client_side.slots.reserve_memory()
            request.resources.callback(memory.release)
            recorder = ConversationRecorder(rules, store, request.identity.owner, memory.add)
            return json_response(answer(recorder, **ids))

        return view

    def writing(schema: Schema, answer: Callable[..., JsonObject]) -> View:
        def view(**ids: str) -> Response:
            request = current_request()
            request.record.protocol = protocol.name
            slot = request.resources.enter_context(client_side.slots.take(request.environ.get(SLOT)))
            client = ClientSocket(request.environ)
            body = validated(schema, json_body(request, client, client_side, slot))
            recorder = ConversationRecorder(rules, store, request.identity.owner, slot.memory.add)
            return json_response(answer(recorder, body=body, **ids))

        return view

    def create(recorder: ConversationRecorder, body: JsonObject) -> JsonObject:
        return recorder.create(body, ids_and_clock)

    def list_items(recorder: ConversationRecorder, conversation_id: str) -> JsonObject:
        return page_of(recorder.items(conversation_id))

    def add(recorder: ConversationRecorder, conversation_id: str, body: JsonObject) -> JsonObject:
        return list_of(recorder.add(conversation_id, body), more=False)

    one = f"{rules.path}/<conversation_id>"
    items, item = f"{one}/items", f"{one}/items/<item_id>"
    blueprint.post(rules.path, endpoint="create")(writing(rules.create_schema, create))
    blueprint.get(one, endpoint="show")(reading(ConversationRecorder.show))
    blueprint.post(one, endpoint="update")(writing(rules.update_schema, ConversationRecorder.update))
    blueprint.delete(one, endpoint="delete")(reading(ConversationRecorder.forget))
    blueprint.post(items, endpoint="add")(writing(rules.add_schema, add))
    blueprint.get(items, endpoint="list")(reading(list_items))
    blueprint.get(item, endpoint="show_item")(reading(ConversationRecorder.item))
    blueprint.delete(item, endpoint="delete_item")(reading(ConversationRecorder.forget_item))
    return blueprint
