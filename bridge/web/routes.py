"""The view that serves every protocol: it reads and validates the body, runs the exchange and answers."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import orjson
from flask import Blueprint, Response
from gunicorn.http.errors import NoMoreData, ParseException
from werkzeug.exceptions import RequestEntityTooLarge

from bridge.errors import ClientDisconnected, InvalidRequest, SlowRequest
from bridge.exchange.background import BackgroundAnswers, BackgroundWork
from bridge.exchange.conversations import ConversationRecorder, StoredTurn, stored_turn
from bridge.exchange.event_replay import EventReplay
from bridge.exchange.exchange import Exchange, open_exchange
from bridge.exchange.services import Services
from bridge.exchange.stored_answers import AnswerRecorder, Keep
from bridge.gemini.types import JsonObject
from bridge.observe.record import Record
from bridge.observe.trace import BothTraces, LogTrace, Trace
from bridge.protocols.base import AnswerStoring, Caller, Protocol
from bridge.protocols.envelope import validated
from bridge.server.app_keys import SLOT
from bridge.server.client_socket import ClientSocket, SlowClients
from bridge.server.memory import MemoryReservation
from bridge.server.slots import Slot, Slots
from bridge.settings import Settings
from bridge.state.answer_store import Admit
from bridge.state.stores import Stores
from bridge.web.body import StreamBody
from bridge.web.event_body import STREAM_HEADERS, event_response
from bridge.web.request import Request, current_request

if TYPE_CHECKING:
    from bridge.recorder.recorder import Recorder

#: Bytes that are read at a time. Memory for a body without a length is reserved in the same pieces.
PIECE = 1024 * 1024
ENDED_EARLY = "The body is shorter than its Content-Length or lacks its last chunk"
BOM = b"\xef\xbb\xbf"
UNKNOWN_CHARACTER = rb"\ufffd"
#: Every escape sequence of a JSON text, so that an escaped backslash is not taken for the start of another.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)

KEY_IN_QUERY = "key"  #: Google's clients may send their key in this parameter; no other layer may see it


@dataclass(frozen=True, slots=True)
class ClientSide:
    """The objects with which one process handles its clients."""

    slots: Slots
    slow_clients: SlowClients
    settings: Settings
    recorder: Recorder | None = None  #: None: nothing is recorded


@dataclass(frozen=True)
class ProtocolServing:
    """One protocol, and the objects with which its views serve requests."""

    protocol: Protocol
    services: Services
    stores: Stores
    client_side: ClientSide

    @cached_property
    def preferences(self) -> Mapping[str, Any]:
        return self.client_side.settings.preferences(self.protocol.name)

    def caller(self, request: Request, slot: Slot, address: Mapping[str, str]) -> Caller:
        """The caller of a request. `address` holds the parameters of its path."""
        identity = request.identity
        query = {name: value for name, value in request.args.items() if name != KEY_IN_QUERY}
        headers = cast(Mapping[str, str], request.headers)
        return Caller(
            headers,
            self.preferences,
            identity.owner,
            identity.permit,
            request.cost_limited,
            address,
            query,
            interruption=request.interruption,
            book_request=request.book_request,
            seal=self.services.summaries.seal(identity.owner),
            key_dialect=None if identity.key is None else identity.key.rules.dialect,
            book_memory=slot.memory.add,
            key_cache="" if identity.key is None else identity.key.rules.cache,
            spent=request.spent,
            key_strict=identity.key is not None and identity.key.rules.strict,
        )

    def take_slot(self, request: Request) -> Slot:
        return request.resources.enter_context(self.client_side.slots.take(request.environ.get(SLOT)))

    def recorder(self, storing: AnswerStoring, owner: str, admit: Admit) -> AnswerRecorder:
        return AnswerRecorder(storing, self.stores.answers, owner, admit)

    def turn(self, body: JsonObject, caller: Caller, slot: Slot, record: Record) -> StoredTurn:
        """The request with its stored history."""
        storing, rules = self.protocol.storing, self.protocol.conversations
        if storing is None:
            return StoredTurn(body)
        owner, admit = caller.owner, slot.memory.add
        conversations = (
            None if rules is None else ConversationRecorder(rules, self.stores.conversations, owner, admit)
        )
        return stored_turn(self.recorder(storing, owner, admit), conversations, body, record)


def make_blueprint(serving: ProtocolServing) -> Blueprint:
    protocol = serving.protocol
    blueprint = Blueprint(protocol.name, __name__)

    @blueprint.after_request
    def name_request(response: Response) -> Response:
        response.headers[protocol.request_id_header] = current_request().record.request_id
        return response

    create = AnswerView(serving).create
    for path in protocol.paths:
        blueprint.add_url_rule(path, view_func=create, methods=["POST"])
    return blueprint


class AnswerView:
    """Creates answers."""

    def __init__(self, serving: ProtocolServing) -> None:
        self._serving = serving
        self._background = BackgroundAnswers(serving.stores.events)

    def create(self, **address: str) -> Response:
        request, serving = current_request(), self._serving
        record, settings = request.record, serving.client_side.settings
        slot = serving.take_slot(request)
        client, caller = ClientSocket(request.environ), serving.caller(request, slot, address)
        sent = json_body(request, client, serving.client_side, slot)
        trace = _trace(request, caller, sent, serving.client_side)
        body = validated(serving.protocol.schema, sent)
        turn = serving.turn(body, caller, slot, record)
        if turn.chain:
            caller = replace(caller, chain=turn.chain)
        client.set_send_timeout(settings.server.send_timeout)
        storing = serving.protocol.storing
        if storing is not None and turn.keep is not None and storing.is_background(body):
            recorder = serving.recorder(storing, caller.owner, slot.memory.add)
            return self._begin(recorder, turn, caller, slot, trace)
        exchange = open_exchange(serving.protocol, turn.body, caller, serving.services, record, trace)
        request.resources.callback(exchange.close)
        return _answer(exchange, client, request, turn.use if turn.uses_answer else None)

    def _begin(
        self, recorder: AnswerRecorder, turn: StoredTurn, caller: Caller, slot: Slot, trace: Trace | None
    ) -> Response:
        """Produce the answer in the background, and stream its events if the client wants a stream."""
        request, serving = current_request(), self._serving
        record, services = request.record, serving.services
        # The background work gets its own log line when it is done.
        work_record = replace(record, status=200, notes=Counter())
        exchange = open_exchange(serving.protocol, turn.body, caller, services, work_record, trace)
        record.conversation, record.losses = work_record.conversation, work_record.losses
        record.assignment = work_record.assignment
        work = BackgroundWork(exchange, recorder, work_record, turn, slot.detach_memory())
        pending = self._background.begin(work)
        record.settlers, record.owed = (), None  # the record of the work settles the usage
        if not exchange.streaming:
            return json_response(pending, headers=exchange.headers)
        replay = EventReplay(recorder, serving.stores.events, services.drain, services.heartbeat)
        wanted = ClientSocket(request.environ).still_connected
        pieces = replay.stream(pending["id"], 0, caller, wanted)
        return event_response(pieces, request.resources, exchange.headers)


def _trace(request: Request, caller: Caller, body: JsonObject, client_side: ClientSide) -> Trace | None:
    log = LogTrace(request.record.request_id) if client_side.settings.log.debug else None
    if client_side.recorder is None:
        return log
    size = request.content_length or 0
    tape = client_side.recorder.tape(request.record, caller.headers, caller.path, caller.query, body, size)
    if tape is None:
        return log
    request.recorded = tape.recording.shown
    return tape if log is None else BothTraces(tape, log)


def _answer(exchange: Exchange, client: ClientSocket, request: Request, keep: Keep | None) -> Response:
    exchange.start(client.still_connected)
    if exchange.streaming:
        body = StreamBody(exchange, client, request.record, request.resources.pop_all(), keep)
        headers = {**STREAM_HEADERS, **exchange.headers}
        # Without direct_passthrough, Flask would wrap the body, which costs time for every piece.
        return Response(body, content_type=exchange.content_type, headers=headers, direct_passthrough=True)
    answer = exchange.body(client.still_connected)
    if keep:
        keep(answer)
    return json_response(answer, headers=exchange.headers)


def json_response(body: JsonObject, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(body), status, headers, content_type="application/json")


def _body(
    request: Request, client: ClientSocket, client_side: ClientSide, memory: MemoryReservation
) -> bytes | bytearray:
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise InvalidRequest(f"Content-Encoding {encoding[:20]} is not supported; send the body uncompressed")
    seconds = client_side.settings.server.body_timeout
    client_side.slow_clients.expect(client.socket, seconds)
    try:
        with request.record.waiting():  # the client's sending time does not count as overhead of the bridge
            return _read(request, memory)
    except ParseException as error:
        raise InvalidRequest(f"The chunked body is invalid: {type(error).__name__}") from None
    except NoMoreData:
        raise InvalidRequest(ENDED_EARLY) from None
    except OSError:
        raise ClientDisconnected("The client disconnected while it sent its request") from None
    finally:
        if not client_side.slow_clients.arrived(client.socket):
            raise SlowRequest(f"The body did not arrive within {seconds:g} seconds")


def _read(request: Request, memory: MemoryReservation) -> bytes | bytearray:
    """Read the whole body. Memory is reserved before reading: for the whole body if its length is known."""
    length, most = request.content_length, request.max_content_length or sys.maxsize
    if length is not None and length > most:
        raise RequestEntityTooLarge
    if length is not None:
        memory.add(length)
    source = request.environ["wsgi.input"]
    data: bytes | bytearray = source.read(PIECE if length is None else min(length, PIECE))
    if length is None:
        memory.add(len(data))
    if len(data) == PIECE:
        data = _read_rest(source, bytearray(data), length, most, memory)
    if length is not None and len(data) < length:
        raise InvalidRequest(ENDED_EARLY)
    return data


def _read_rest(
    source: Any, data: bytearray, length: int | None, most: int, memory: MemoryReservation
) -> bytearray:
    while piece := source.read(PIECE if length is None else min(length - len(data), PIECE)):
        if len(data) + len(piece) > most:
            raise RequestEntityTooLarge
        if length is None:
            memory.add(len(piece))
        data += piece
    return data


def json_body(request: Request, client: ClientSocket, client_side: ClientSide, slot: Slot) -> dict[str, Any]:
    return _json_object(_body(request, client, client_side, slot.memory))


def _json_object(data: bytes | bytearray) -> dict[str, Any]:
    try:
        body = _parsed(data.removeprefix(BOM) if data.startswith(BOM) else data)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error.msg} at byte {error.pos}") from None
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object")
    return body


def _parsed(data: bytes | bytearray) -> Any:
    """Parse the JSON, with lone surrogates replaced by U+FFFD.

    JavaScript clients write a lone surrogate when they truncate a text inside a surrogate pair. It stays in
    the client's history, so an error would make the whole conversation unusable.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return orjson.loads(_ESCAPE.sub(_whole_escape, data))


def _whole_escape(found: re.Match[bytes]) -> bytes:
    return UNKNOWN_CHARACTER if found["half"] else found[0]
