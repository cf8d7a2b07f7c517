"""One view for every protocol: read, check, exchange, answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from flask import Blueprint, Response, g, request
from marshmallow import Schema, ValidationError
from werkzeug.exceptions import RequestEntityTooLarge

from bridge.errors import InvalidRequest
from bridge.exchange import Exchange, Services, count_tokens, open_exchange
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

    def caller() -> Caller:
        return Caller(dict(request.headers), preferences, owner_of(request.headers))

    @blueprint.after_request
    def name_request(response: Response) -> Response:
        response.headers[protocol.request_id_header] = g.record.request_id
        return response

    @blueprint.post(protocol.path)
    def create() -> Response:
        record: Record = g.record
        record.protocol = protocol.name
        trace = Trace(record.request_id) if debug else None
        body = checked(protocol.schema, _json_object(_body()))
        who = caller()
        if protocol.storing is None:
            return _answered(open_exchange(protocol, body, who, services, record, trace), record, None)
        keeper = Keeper(protocol.storing, answers, who.owner)
        body = keeper.dereferenced(body)
        keep, resumed = keeper.keeping(body), keeper.resumed(body)
        if keep and keeper.storing.background(body):
            # Its own line in the log, when the work is done.
            work = replace(record, status=200, notes=Counter())
            exchange = open_exchange(protocol, resumed, who, services, work, trace)
            return json_response(background.begin(exchange, keeper, work, keep))
        return _answered(open_exchange(protocol, resumed, who, services, record, trace), record, keep)

    if (counting := protocol.counting) is not None:

        @blueprint.post(counting.path)
        def count() -> Response:
            g.record.protocol = protocol.name
            body = checked(counting.schema, _json_object(_body()))
            return json_response(counting.body(count_tokens(protocol, body, caller(), services, g.record)))

    return blueprint


def _answered(exchange: Exchange, record: Record, keep: Keep | None) -> Response:
    try:
        exchange.start()
        if exchange.streaming:
            return _stream(StreamBody(exchange, record, keep))
        answer = exchange.body()
    except BaseException:
        exchange.close()
        raise
    exchange.close()
    if keep:
        keep(answer)
    return json_response(answer)


def _stream(body: StreamBody) -> Response:
    return Response(body, content_type="text/event-stream; charset=utf-8", headers=STREAM_HEADERS)


def json_response(body: JsonObject, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, content_type="application/json")


def _body() -> bytes:
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise InvalidRequest(f"The bridge does not read bodies with Content-Encoding: {encoding[:20]}")
    record: Record = g.record
    with record.waiting():  # how long a client takes to send is not the bridge's doing
        data = request.get_data(cache=False)
    if request.content_length is None and len(data) == request.max_content_length:
        # Of a chunked body without a length Werkzeug reads up to the limit and stops without a word.
        raise RequestEntityTooLarge
    return data


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
