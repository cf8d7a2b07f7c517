"""Routes without a stream: token counts, embeddings, and paths that the bridge does not support."""

from __future__ import annotations

import re
from collections.abc import Callable

from flask import Blueprint, Response, request
from marshmallow import Schema

from bridge.errors import UnknownRoute
from bridge.exchange.conversations import stored_turn
from bridge.exchange.embeddings import embed
from bridge.exchange.exchange import Services, count_tokens
from bridge.exchange.stored_answers import AnswerRecorder
from bridge.gemini.types import JsonObject
from bridge.observe.record import Record
from bridge.protocols.base import Caller, Protocol
from bridge.server.app_keys import SLOT
from bridge.server.client_socket import ClientSocket
from bridge.state.stores import Stores
from bridge.web.request import current_request
from bridge.web.routes import (
    ClientSide,
    conversations_of,
    json_body,
    json_response,
    make_caller,
    validated,
)

View = Callable[..., Response]
Answer = Callable[[JsonObject, Caller, Record], JsonObject]


def add_unary_calls(
    blueprint: Blueprint, protocol: Protocol, services: Services, stores: Stores, client_side: ClientSide
) -> None:
    preferences = client_side.settings.preferences(protocol.name)

    def make_view(schema: Schema, answer: Answer) -> View:
        def view(**address: str) -> Response:
            request = current_request()
            request.record.protocol = protocol.name
            slot = request.resources.enter_context(client_side.slots.take(request.environ.get(SLOT)))
            body = validated(schema, json_body(request, ClientSocket(request.environ), client_side, slot))
            caller = make_caller(request, slot, address, preferences)
            if protocol.storing is not None:
                recorder = AnswerRecorder(protocol.storing, stores.answers, caller.owner, slot.memory.add)
                conversations = conversations_of(protocol, stores, caller, slot)
                body = stored_turn(recorder, conversations, body, request.record).body
            return json_response(answer(body, caller, request.record))

        return view

    if (counting := protocol.counting) is not None:
        count = make_view(
            counting.schema,
            lambda body, caller, record: counting.body(
                count_tokens(counting, body, caller, services, record)
            ),
        )
        for path in counting.paths:
            blueprint.add_url_rule(path, "count", count, methods=["POST"])
    if (embedding := protocol.embedding) is not None:
        vectors = make_view(
            embedding.schema, lambda body, caller, record: embed(embedding, body, caller, services, record)
        )
        for path in embedding.paths:
            blueprint.add_url_rule(path, "embed", vectors, methods=["POST"])
    unsupported = _unsupported_view(list(protocol.all_paths))
    for (
        path
    ) in protocol.unsupported_paths:  # registered last: of two equally good matches Flask uses the first
        blueprint.add_url_rule(path, "unsupported", unsupported, methods=["POST"])


def _unsupported_view(served: list[str]) -> View:
    def unsupported(**_address: str) -> Response:
        similar = [path for path in served if request.path.startswith(path.partition("<")[0])]
        paths = ", ".join(map(shown_path, similar))
        raise UnknownRoute(f"There is no route POST {request.path}; similar routes are {paths}")

    return unsupported


def shown_path(path: str) -> str:
    """The path for messages: `{model}` for a parameter, `{a|b}` for a parameter with known values."""
    chosen = re.sub(r"<any\(([^)]*)\):\w+>", lambda found: "{" + found[1].replace(", ", "|") + "}", path)
    return re.sub(r"<(?:[^<>]+:)?(\w+)>", r"{\1}", chosen)
