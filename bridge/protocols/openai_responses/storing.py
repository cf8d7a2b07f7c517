"""Rules for stored responses and their continuation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bridge.errors import BridgeError, UnknownPreviousAnswer
from bridge.gemini.types import JsonObject
from bridge.protocols.base import AnswerStoring, PastTurn
from bridge.protocols.json_reading import invalid_field
from bridge.protocols.openai_responses.compaction import without_triggers
from bridge.protocols.openai_responses.complete_items import complete_item, input_list
from bridge.protocols.openai_responses.errors import response_error
from bridge.protocols.openai_responses.machine import ID_PREFIX
from bridge.protocols.openai_responses.replay import REPLAY


def _should_store(body: JsonObject) -> bool:
    return body.get("store") is not False  # the vendor's default is to store


def _previous_id(body: JsonObject) -> str | None:
    previous: str | None = body.get("previous_response_id")
    return previous


def _is_background(body: JsonObject) -> bool:
    return bool(body.get("background"))


def _input_items(body: JsonObject) -> list[dict[str, Any]]:
    """The request's input items in the vendor's complete form, each with an id."""
    return [complete_item(item) for item in input_list(body["input"]) if isinstance(item, dict)]


def _resolve_references(body: JsonObject, find: Callable[[str], JsonObject | None]) -> JsonObject:
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
        raise invalid_field("there is no stored item with this id; send the item itself", param)
    return found


def _with_history(body: JsonObject, turns: Sequence[PastTurn]) -> JsonObject:
    """The request with the items of earlier turns. Instructions of earlier turns are not inherited."""
    past = [item for turn in turns for item in (*turn.question, *turn.answer["output"])]
    return {**body, "input": [*without_triggers(past), *_input_items(body)]}


def _as_failed(answer: JsonObject, error: BridgeError) -> JsonObject:
    return {**answer, "status": "failed", "error": response_error(error)}


STORING = AnswerStoring(
    should_store=_should_store,
    previous_id=_previous_id,
    previous_field="previous_response_id",
    is_background=_is_background,
    input_items=_input_items,
    resolve_references=_resolve_references,
    with_history=_with_history,
    id_prefix=ID_PREFIX,
    id_field="response_id",
    not_found=UnknownPreviousAnswer,
    is_cancellable=lambda answer: bool(answer.get("background")),
    as_failed=_as_failed,
    deletion_body=lambda answer_id: {"id": answer_id, "object": "response", "deleted": True},
    render=lambda answer, _input_items, _query: answer,
    replay=REPLAY,
    input_path="/input_items",
)
