"""How Responses are kept and gone on from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bridge.errors import BridgeError, InternalError, InvalidRequest
from bridge.gemini.types import JsonObject
from bridge.ids_and_clock import random_id
from bridge.protocols.base import AnswerStoring, PastTurn
from bridge.protocols.json_reading import refuse
from bridge.protocols.openai_responses.machine import ID_PREFIX


def _wanted(body: JsonObject) -> bool:
    return body.get("store") is not False  # as the vendor does it: kept unless told otherwise


def _previous(body: JsonObject) -> str | None:
    previous: str | None = body.get("previous_response_id")
    return previous


def _background(body: JsonObject) -> bool:
    return bool(body.get("background")) and not body.get("stream")


def _question(body: JsonObject) -> list[dict[str, Any]]:
    """The request's own items, each with an id to be listed by."""
    given = body["input"]
    items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
    return [{"id": random_id("item_"), **item} for item in items if isinstance(item, dict)]


def _dereferenced(body: JsonObject, find: Callable[[str], JsonObject | None]) -> JsonObject:
    given = body["input"]
    if isinstance(given, str) or not any(map(_is_reference, given)):
        return body
    items = [
        _found(item, find, f"input[{index}].id") if _is_reference(item) else item
        for index, item in enumerate(given)
    ]
    return {**body, "input": items}


def _is_reference(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "item_reference"


def _found(item: JsonObject, find: Callable[[str], JsonObject | None], param: str) -> JsonObject:
    found = find(str(item.get("id")))
    if found is None:
        raise refuse("names no stored item; send the item itself", param)
    return found


def _resumed(body: JsonObject, turns: Sequence[PastTurn]) -> JsonObject:
    """Instructions are not taken over from earlier turns; everything said is."""
    past = [item for turn in turns for item in (*turn.question, *turn.answer["output"])]
    return {**body, "input": [*past, *_question(body)]}


def _failed(answer: JsonObject, error: BridgeError) -> JsonObject:
    code = "server_error" if isinstance(error, InternalError) else error.kind
    return {**answer, "status": "failed", "error": {"code": code, "message": error.message}}


STORING = AnswerStoring(
    wanted=_wanted,
    previous=_previous,
    previous_field="previous_response_id",
    background=_background,
    question=_question,
    dereferenced=_dereferenced,
    resumed=_resumed,
    id_prefix=ID_PREFIX,
    id_field="response_id",
    unknown=InvalidRequest,
    cancellable=lambda answer: bool(answer.get("background")),
    failed=_failed,
    deleted=lambda answer_id: {"id": answer_id, "object": "response", "deleted": True},
    shown=lambda answer, _question, _query: answer,
    question_path="/input_items",
)
