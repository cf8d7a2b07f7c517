"""What a protocol may be asked beside answers: token counts, vectors, and what it does not have."""

from __future__ import annotations

import re
from collections.abc import Callable

from flask import Blueprint, Response, request
from marshmallow import Schema

from bridge.errors import UnknownRoute
from bridge.exchange.embeddings import embed
from bridge.exchange.exchange import Services, count_tokens
from bridge.gemini.types import JsonObject
from bridge.observe.record import Record
from bridge.protocols.base import Caller, Protocol
from bridge.server.app_keys import SLOT
from bridge.server.client_socket import ClientSocket
from bridge.web.request import current_request
from bridge.web.routes import ClientSide, caller, checked, json_body, json_response

View = Callable[..., Response]


Answering = Callable[[JsonObject, Caller, Record], JsonObject]


def add_unary_calls(
    blueprint: Blueprint, protocol: Protocol, services: Services, client_side: ClientSide
) -> None:
    preferences = client_side.settings.preferences(protocol.name)

    def answering(schema: Schema, answer: Answering) -> View:
        def view(**address: str) -> Response:
            request = current_request()
            request.record.protocol = protocol.name
            slot = request.resources.enter_context(client_side.slots.take(request.environ.get(SLOT)))
            body = checked(schema, json_body(request, ClientSocket(request.environ), client_side, slot))
            return json_response(answer(body, caller(request, address, preferences), request.record))

        return view

    if (counting := protocol.counting) is not None:
        count = answering(
            counting.schema,
            lambda body, who, record: counting.body(count_tokens(counting, body, who, services, record)),
        )
        for path in counting.paths:
            blueprint.add_url_rule(path, "count", count, methods=["POST"])
    if (embedding := protocol.embedding) is not None:
        vectors = answering(
            embedding.schema, lambda body, who, record: embed(embedding, body, who, services, record)
        )
        for path in embedding.paths:
            blueprint.add_url_rule(path, "embed", vectors, methods=["POST"])
    nothing = _nothing(list(protocol.served))
    for path in protocol.nowhere:  # last: of paths that fit equally well the first is taken
        blueprint.add_url_rule(path, "nothing", nothing, methods=["POST"])


def _nothing(served: list[str]) -> View:
    def nothing(**_address: str) -> Response:
        beside = [path for path in served if request.path.startswith(path.partition("<")[0])]
        there_are = ", ".join(map(shown_path, beside))
        raise UnknownRoute(f"There is no POST {request.path} here; there are {there_are}")

    return nothing


def shown_path(path: str) -> str:
    """As people write it: {model} for what is open, and what it may be where that is known."""
    chosen = re.sub(r"<any\(([^)]*)\):\w+>", lambda found: "{" + found[1].replace(", ", "|") + "}", path)
    return re.sub(r"<(?:[^<>]+:)?(\w+)>", r"{\1}", chosen)
