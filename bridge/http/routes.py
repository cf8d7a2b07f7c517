"""One view for every protocol: read, check, exchange, answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from flask import Blueprint, Response, g, request
from marshmallow import Schema, ValidationError
from werkzeug.exceptions import RequestEntityTooLarge

from bridge.errors import InvalidRequest
from bridge.exchange import Exchange, Services, open_exchange
from bridge.gemini.types import JsonObject
from bridge.http.body import StreamBody
from bridge.http.owner import owner_of
from bridge.observe.record import Record
from bridge.observe.trace import Trace
from bridge.protocols.base import Caller, Protocol
from bridge.state.answers import AnswerStore
from bridge.stored import Background, Keep, Keeper

#: Proxies must pass each event on at once, and keep none.
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

KEY_IN_QUERY = "key"  #: Google's clients may send their key there; nobody below has any use for it


def make_blueprint(
    protocol: Protocol,
    services: Services,
    answers: AnswerStore,
    preferences: Mapping[str, Any],
    *,
    debug: bool,
) -> Blueprint:
    blueprint = Blueprint(protocol.name, __name__)
    background = Background()

    @blueprint.after_request
    def name_request(response: Response) -> Response:
        response.headers[protocol.request_id_header] = g.record.request_id
        return response

    def create(**place: str) -> Response:
        record: Record = g.record
        record.protocol = protocol.name
        trace = Trace(record.request_id) if debug else None
        body = checked(protocol.schema, json_body())
        who = caller(place, preferences)
        if protocol.storing is None:
            return _answered(open_exchange(protocol, body, who, services, record, trace), record, None)
        keeper = Keeper(protocol.storing, answers, who.owner)
        body = keeper.dereferenced(body)
        keep, resumed = keeper.keeping(body), keeper.resumed(body)
        if keep and keeper.storing.background(body):
            work = replace(record, status=200)  # its own line in the log, when the work is done
            exchange = open_exchange(protocol, resumed, who, services, work, trace)
            return json_response(background.begin(exchange, keeper, work, keep))
        return _answered(open_exchange(protocol, resumed, who, services, record, trace), record, keep)

    for path in protocol.paths:
        blueprint.add_url_rule(path, view_func=create, methods=["POST"])
    return blueprint


def caller(place: Mapping[str, str], preferences: Mapping[str, Any]) -> Caller:
    query = {name: value for name, value in request.args.items() if name != KEY_IN_QUERY}
    return Caller(dict(request.headers), preferences, owner_of(request.headers), place, query)


def _answered(exchange: Exchange, record: Record, keep: Keep | None) -> Response:
    try:
        exchange.start()
        if exchange.streaming:
            return _stream(StreamBody(exchange, record, keep), exchange.content_type)
        answer = exchange.body()
    except BaseException:
        exchange.close()
        raise
    exchange.close()
    if keep:
        keep(answer)
    return json_response(answer)


def _stream(body: StreamBody, content_type: str) -> Response:
    return Response(body, content_type=content_type, headers=STREAM_HEADERS)


def json_response(body: JsonObject, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, content_type="application/json")


def _body() -> bytes:
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise InvalidRequest(f"The bridge does not read bodies with Content-Encoding: {encoding[:20]}")
    data = request.get_data(cache=False)
    if request.content_length is None and len(data) == request.max_content_length:
        # Of a chunked body without a length Werkzeug reads up to the limit and stops without a word.
        raise RequestEntityTooLarge
    return data


def json_body() -> dict[str, Any]:
    return _json_object(_body())


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error.msg} at byte {error.pos}") from None
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object")
    return body


def checked(schema: Schema, body: dict[str, Any]) -> JsonObject:
    try:
        checked: JsonObject = schema.load(body)
    except ValidationError as error:
        raise _named(error) from None
    return checked


def _named(error: ValidationError) -> InvalidRequest:
    """The first problem, by the field it is in."""
    param, problems = next(iter(error.messages_dict.items()))
    return InvalidRequest(f"{param}: {problems[0]}", param=param)
