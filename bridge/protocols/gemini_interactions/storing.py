"""Rules for stored interactions and their continuation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bridge.errors import BridgeError, UnknownAnswer
from bridge.gemini.types import JsonObject
from bridge.protocols.base import UNFINISHED_STATUSES, AnswerStoring, PastTurn
from bridge.protocols.gemini_interactions.machine import ID_PREFIX, error_from
from bridge.protocols.gemini_interactions.replay import REPLAY


def _should_store(body: JsonObject) -> bool:
    return body.get("store") is not False  # the vendor's default is to store


def _previous_id(body: JsonObject) -> str | None:
    previous: str | None = body.get("previous_interaction_id")
    return previous


def _is_background(body: JsonObject) -> bool:
    return bool(body.get("background"))


def _input_items(body: JsonObject) -> list[dict[str, Any]]:
    given = body["input"]
    if isinstance(given, str):
        return [{"type": "user_input", "content": [{"type": "text", "text": given}]}]
    return [given] if isinstance(given, dict) else [step for step in given if isinstance(step, dict)]


def _resolve_references(body: JsonObject, _find: Callable[[str], JsonObject | None]) -> JsonObject:
    return body  # the protocol has no references to single items


def _with_history(body: JsonObject, turns: Sequence[PastTurn]) -> JsonObject:
    """The request with the earlier steps. Tools, instruction and configuration are not inherited."""
    past = [step for turn in turns for step in (*turn.question, *turn.answer["steps"])]
    return {**body, "input": [*past, *_input_items(body)]}


def _render(answer: JsonObject, question: Sequence[JsonObject], query: Mapping[str, str]) -> JsonObject:
    return {**answer, "input": question} if query.get("include_input", "").lower() == "true" else answer


def _as_failed(answer: JsonObject, error: BridgeError) -> JsonObject:
    return {**answer, "status": "failed", "errors": [error_from(error)]}


STORING = AnswerStoring(
    should_store=_should_store,
    previous_id=_previous_id,
    previous_field="previous_interaction_id",
    is_background=_is_background,
    input_items=_input_items,
    resolve_references=_resolve_references,
    with_history=_with_history,
    id_prefix=ID_PREFIX,
    id_field="id",
    not_found=UnknownAnswer,
    is_cancellable=lambda answer: answer["status"] in UNFINISHED_STATUSES,
    cancel_paths=("/cancel", ":cancel"),
    as_failed=_as_failed,
    deletion_body=lambda _answer_id: {},
    render=_render,
    replay=REPLAY,
)
