"""HTTP routes for stored answers: get, list the input items, cancel and delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Blueprint, Response, request

from bridge.errors import InvalidRequest
from bridge.exchange.stored_answers import AnswerRecorder
from bridge.protocols.base import AnswerStoring, Protocol
from bridge.server.slots import Slots
from bridge.state.answer_store import AnswerStore
from bridge.web.request import current_request
from bridge.web.routes import json_response

MOST_LISTED = 100
LONGEST_NUMBER = 20  #: digits; parsing a very long number takes time


def make_stored_blueprint(
    protocol: Protocol, storing: AnswerStoring, store: AnswerStore, slots: Slots
) -> Blueprint:
    blueprint = Blueprint(f"{protocol.name}_stored", __name__)

    def answered(ask: Callable[[AnswerRecorder], Mapping[str, Any]]) -> Response:
        request = current_request()
        request.record.protocol = protocol.name
        memory = slots.reserve_memory()
        request.resources.callback(memory.release)
        return json_response(ask(AnswerRecorder(storing, store, request.identity.owner, memory.add)))

    def show(answer_id: str) -> Response:
        return answered(lambda recorder: recorder.shown(answer_id, request.args))

    def delete(answer_id: str) -> Response:
        def deleted(recorder: AnswerRecorder) -> Mapping[str, Any]:
            recorder.forget(answer_id)
            return storing.deletion_body(answer_id)

        return answered(deleted)

    def cancel(answer_id: str) -> Response:
        return answered(lambda recorder: recorder.cancel(answer_id))

    def list_question(answer_id: str) -> Response:
        return answered(lambda recorder: _page(recorder.found(answer_id).question))

    for path in (f"{path}/<answer_id>" for path in protocol.paths):
        blueprint.get(path)(show)
        blueprint.delete(path)(delete)
        for suffix in storing.cancel_paths:
            blueprint.post(f"{path}{suffix}")(cancel)
        if storing.input_path is not None:
            blueprint.get(f"{path}{storing.input_path}")(list_question)
    return blueprint


def _page(items: list[dict[str, Any]]) -> dict[str, Any]:
    """One page of the items, newest first by default. `after` is the id of the previous page's last item."""
    listed = items if request.args.get("order") == "asc" else items[::-1]
    if after := request.args.get("after"):
        seen = [item["id"] for item in listed]
        if after not in seen:
            raise InvalidRequest("after: there is no item with this id", param="after")
        listed = listed[seen.index(after) + 1 :]
    limit = _limit(request.args.get("limit", "20"))
    page = listed[:limit]
    ids = [item["id"] for item in page] or [None]
    more = len(listed) > limit
    return {"object": "list", "data": page, "first_id": ids[0], "last_id": ids[-1], "has_more": more}


def _limit(given: str) -> int:
    digits = given if given.isascii() and given.isdecimal() else ""
    number = int(digits) if 0 < len(digits) < LONGEST_NUMBER else 0
    if not 1 <= number <= MOST_LISTED:
        raise InvalidRequest(f"limit: must be a whole number from 1 to {MOST_LISTED}", param="limit")
    return number
