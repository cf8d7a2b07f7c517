"""HTTP routes for stored answers: get, stream again, list the input items, cancel and delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, request

from bridge.errors import InvalidRequest
from bridge.exchange.event_replay import EventReplay
from bridge.exchange.stored_answers import AnswerRecorder
from bridge.protocols.base import AnswerStoring
from bridge.server.client_socket import ClientSocket
from bridge.web.event_body import event_response
from bridge.web.request import current_request
from bridge.web.routes import ProtocolServing, json_response

MOST_LISTED = 100
LONGEST_NUMBER = 20  #: digits; parsing a very long number takes time


def make_stored_blueprint(serving: ProtocolServing, storing: AnswerStoring) -> Blueprint:
    protocol, views = serving.protocol, StoredAnswerViews(serving, storing)
    blueprint = Blueprint(f"{protocol.name}_stored", __name__)
    for path in (f"{path}/<answer_id>" for path in protocol.paths):
        blueprint.get(path)(views.show)
        blueprint.delete(path)(views.delete)
        for suffix in storing.cancel_paths:
            blueprint.post(f"{path}{suffix}")(views.cancel)
        if storing.input_path is not None:
            blueprint.get(f"{path}{storing.input_path}")(views.list_question)
    return blueprint


@dataclass(frozen=True, slots=True)
class StoredAnswerViews:
    serving: ProtocolServing
    storing: AnswerStoring

    def _recorder(self) -> AnswerRecorder:
        request = current_request()
        request.record.protocol = self.serving.protocol.name
        memory = self.serving.client_side.slots.reserve_memory()
        request.resources.callback(memory.release)
        return self.serving.recorder(self.storing, request.identity.owner, memory.add)

    def _replay(self) -> EventReplay:
        services = self.serving.services
        return EventReplay(self._recorder(), self.serving.stores.events, services.drain, services.heartbeat)

    def show(self, answer_id: str) -> Response:
        position = self.storing.replay.position(request.args)
        if position is None:
            return json_response(self._recorder().shown(answer_id, request.args))
        return self._stream(answer_id, position)

    def _stream(self, answer_id: str, position: int) -> Response:
        request = current_request()
        events = self._replay()
        events.check(answer_id)
        slot = self.serving.take_slot(request)
        client = ClientSocket(request.environ)
        client.set_send_timeout(self.serving.client_side.settings.server.send_timeout)
        caller = self.serving.caller(request, slot, {})
        pieces = events.stream(answer_id, position, caller, client.still_connected)
        return event_response(pieces, request.resources)

    def delete(self, answer_id: str) -> Response:
        self._replay().forget(answer_id)
        return json_response(self.storing.deletion_body(answer_id))

    def cancel(self, answer_id: str) -> Response:
        return json_response(self._recorder().cancel(answer_id))

    def list_question(self, answer_id: str) -> Response:
        return json_response(page_of(self._recorder().found(answer_id).question))


def page_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    """One page of the items, newest first by default. `after` is the id of the previous page's last item."""
    listed = items if _is_ascending(request.args.get("order", "desc")) else items[::-1]
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


def _is_ascending(order: str) -> bool:
    if order not in ("asc", "desc"):
        raise InvalidRequest("order: must be asc or desc", param="order")
    return order == "asc"


def _limit(given: str) -> int:
    digits = given if given.isascii() and given.isdecimal() else ""
    number = int(digits) if 0 < len(digits) < LONGEST_NUMBER else 0
    if not 1 <= number <= MOST_LISTED:
        raise InvalidRequest(f"limit: must be a whole number from 1 to {MOST_LISTED}", param="limit")
    return number
