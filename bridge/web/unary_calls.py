"""Routes without a stream: token counts, embeddings, compaction, and paths that are not supported."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from flask import Blueprint, Response, request
from marshmallow import Schema

from bridge.errors import UnknownRoute
from bridge.exchange.embeddings import embed
from bridge.exchange.exchange import open_exchange
from bridge.exchange.token_counting import count_tokens
from bridge.gemini.types import JsonObject
from bridge.observe.record import Record
from bridge.protocols.base import Caller
from bridge.protocols.envelope import validated
from bridge.server.client_socket import ClientSocket
from bridge.web.request import current_request
from bridge.web.routes import ProtocolServing, json_body, json_response

EMBED = "embed"  #: the endpoint of embeddings
UNSUPPORTED = "unsupported"  #: the endpoint of paths that always answer 404

View = Callable[..., Response]
Answer = Callable[[JsonObject, Caller, Record], JsonObject]


def add_unary_calls(blueprint: Blueprint, serving: ProtocolServing) -> None:
    protocol = serving.protocol
    calls = UnaryCalls(serving)
    routes = (
        ("count", protocol.counting, calls.count),
        (EMBED, protocol.embedding, calls.embed),
        ("compact", protocol.compaction, calls.compact),
    )
    for endpoint, route, answer in routes:
        if route is not None:
            view = calls.view(route.schema, answer)
            for path in route.paths:
                blueprint.add_url_rule(path, endpoint, view, methods=["POST"])
    unsupported = _unsupported_view(list(protocol.all_paths))
    # Registered last: of two equally good matches Flask uses the first.
    for path in protocol.unsupported_paths:
        blueprint.add_url_rule(path, UNSUPPORTED, unsupported, methods=["POST"])


@dataclass(frozen=True, slots=True)
class UnaryCalls:
    """The answers that one protocol gives at once."""

    serving: ProtocolServing

    def view(self, schema: Schema, answer: Answer) -> View:
        def view(**address: str) -> Response:
            request, serving = current_request(), self.serving
            slot = serving.take_slot(request)
            client = ClientSocket(request.environ)
            body = validated(schema, json_body(request, client, serving.client_side, slot))
            caller = serving.caller(request, slot, address)
            turn = serving.turn(body, caller, slot, request.record)
            if turn.chain:
                caller = replace(caller, chain=turn.chain)
            return json_response(answer(turn.body, caller, request.record))

        return view

    def count(self, body: JsonObject, caller: Caller, record: Record) -> JsonObject:
        counting = self.serving.protocol.counting
        assert counting is not None
        return count_tokens(counting, body, caller, self.serving.services, record)

    def embed(self, body: JsonObject, caller: Caller, record: Record) -> JsonObject:
        embedding = self.serving.protocol.embedding
        assert embedding is not None
        return embed(embedding, body, caller, self.serving.services, record)

    def compact(self, body: JsonObject, caller: Caller, record: Record) -> JsonObject:
        serving, request = self.serving, current_request()
        compaction = serving.protocol.compaction
        assert compaction is not None
        asked = compaction.request(body)
        exchange = open_exchange(serving.protocol, asked, caller, serving.services, record, trace=None)
        request.resources.callback(exchange.close)
        wanted = ClientSocket(request.environ).still_connected
        exchange.start(wanted)
        return compaction.body(body, exchange.body(wanted))


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
