"""HTTP routes for stored answers: get, stream again, list the input items, cancel and delete."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request
from werkzeug.exceptions import MethodNotAllowed, NotFound

from bridge.errors import InvalidRequest
from bridge.exchange.event_replay import EventReplay
from bridge.exchange.exchange import Services
from bridge.exchange.stored_answers import AnswerRecorder
from bridge.protocols.base import AnswerStoring, Protocol
from bridge.server.app_keys import SLOT
from bridge.server.client_socket import ClientSocket
from bridge.state.stores import Stores
from bridge.web.event_body import event_response
from bridge.web.request import current_request
from bridge.web.routes import ClientSide, json_response, make_caller

MOST_LISTED = 100
LONGEST_NUMBER = 20  #: digits; parsing a very long number takes time


def make_stored_blueprint(
    protocol: Protocol, storing: AnswerStoring, services: Services, stores: Stores, client_side: ClientSide
) -> Blueprint:
    blueprint = Blueprint(f"{protocol.name}_stored", __name__)
    preferences = client_side.settings.preferences(protocol.name)

    def recorder() -> AnswerRecorder:
        request = current_request()
        request.record.protocol = protocol.name
        memory = client_side.slots.reserve_memory()
        request.resources.callback(memory.release)
        return AnswerRecorder(storing, stores.answers, request.identity.owner, memory.add)

    def replay() -> EventReplay:
        return EventReplay(recorder(), stores.events, services.drain, services.heartbeat)

    def show(answer_id: str) -> Response:
        position = storing.replay.position(request.args)
        if position is None:
            return json_response(recorder().shown(answer_id, request.args))
        return stream(answer_id, position)

    def stream(answer_id: str, position: int) -> Response:
        request = current_request()
        events = replay()
        events.check(answer_id)
        slot = request.resources.enter_context(client_side.slots.take(request.environ.get(SLOT)))
        client = ClientSocket(request.environ)
        client.set_send_timeout(client_side.settings.server.send_timeout)
        caller = make_caller(request, slot, {}, preferences)
        pieces = events.stream(answer_id, position, caller, client.still_connected)
        return event_response(pieces, request.resources)

    def delete(answer_id: str) -> Response:
        replay().forget(answer_id)
        return json_response(storing.deletion_body(answer_id))

    def cancel(answer_id: str) -> Response:
        return json_response(recorder().cancel(answer_id))

    def list_question(answer_id: str) -> Response:
        return json_response(page_of(recorder().found(answer_id).question))

    def unsupported(answer_id: str) -> Response:
        """A path that is no answer's is a typing error."""
        if answer_id.startswith(storing.id_prefix):
            raise MethodNotAllowed(valid_methods=["GET", "DELETE"])
        raise NotFound

    for path in (f"{path}/<answer_id>" for path in protocol.paths):
        blueprint.get(path)(show)
        blueprint.delete(path)(delete)
        blueprint.route(path, endpoint="unsupported", methods=["POST", "PUT", "PATCH"])(unsupported)
        for suffix in storing.cancel_paths:
            blueprint.post(f"{path}{suffix}")(cancel)
        if storing.input_path is not None:
            blueprint.get(f"{path}{storing.input_path}")(list_question)
    return blueprint


def page_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    """One page of the items, newest first by default. `after` is the id of the previous page's last item."""
    listed = items if request.args.get("order") == "asc" else items[::-1]
    if after := request.args.get("after"):
        seen = [item["id"] for item in listed]
        if after not in seen:
            raise InvalidRequest("after: there is no item with this id", param="after")
        listed = listed[seen.index(after) + 1 :]
    limit = _limit(request.args.get("limit", "20"))
    page = listed[:limit]
    return list_of(page, more=len(listed) > limit)


def list_of(items: list[dict[str, Any]], *, more: bool) -> dict[str, Any]:
    """A page of items in the vendor's form. Its ids are strings even if the page is empty."""
    ids = [item["id"] for item in items] or [""]
    return {"object": "list", "data": items, "first_id": ids[0], "last_id": ids[-1], "has_more": more}


def _limit(given: str) -> int:
    digits = given if given.isascii() and given.isdecimal() else ""
    number = int(digits) if 0 < len(digits) < LONGEST_NUMBER else 0
    if not 1 <= number <= MOST_LISTED:
        raise InvalidRequest(f"limit: must be a whole number from 1 to {MOST_LISTED}", param="limit")
    return number
