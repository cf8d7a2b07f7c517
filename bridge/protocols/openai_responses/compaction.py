"""Compaction: an item with a summary takes the place of older items.

Three doors lead to it. `POST /v1/responses/compact` answers with the client's messages and the item. An input
that ends with a `compaction_trigger` gets an answer that is the item alone. With `context_management`, an
answer begins with the item when the prompt reaches a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bridge.gemini.summary_part import COMPACTION as WISH
from bridge.gemini.summary_part import WrittenSummary, is_summary_turn, summary_turn
from bridge.gemini.types import USER, Content, ContextWish, FunctionResponse, JsonObject
from bridge.protocols.base import Compaction
from bridge.protocols.json_reading import each_object, invalid_field, optional, quoted, required
from bridge.protocols.openai_responses.complete_items import complete_item, input_list
from bridge.protocols.openai_responses.schema import CompactionSchema
from bridge.protocols.summary_seal import OpenedSummary, StandsFor, SummarySeal

#: Messages with these roles stay as they are. The summary replaces everything else.
_KEPT_ROLES = ("user", "system", "developer")
_CARRIED = ("model", "instructions", "service_tier")  #: fields of the request for the summary
TRIGGER = "compaction_trigger"
ITEM = "compaction"
ID_PREFIX = "cmp_"
_FIELD = "context_management"
USUAL_THRESHOLD, LEAST_THRESHOLD = 200_000, 1000


# --- the wish ----------------------------------------------------------------------------------------


def compaction_wishes(body: JsonObject) -> tuple[ContextWish, ...]:
    """What the request asks for. Raises InvalidRequest."""
    items = input_list(body["input"])
    if items and _is_trigger(items[-1]):
        if len(items) == 1:
            raise invalid_field("there is nothing to compact before the trigger", "input")
        return (ContextWish(WISH, {"alone": True, "keeps_messages": True}),)
    entries = body.get(_FIELD) or []
    if not isinstance(entries, list):
        raise invalid_field("must be an array", _FIELD)
    return tuple([_threshold(entry, path) for path, entry in each_object(entries, _FIELD)][:1])


def _threshold(entry: JsonObject, path: str) -> ContextWish:
    kind = required(entry, "type", str, path)
    if kind != ITEM:
        raise invalid_field(f"must be {ITEM}, not {quoted(kind)}", f"{path}.type")
    value = optional(entry, "compact_threshold", int, path)
    if value is not None and value < LEAST_THRESHOLD:
        raise invalid_field(f"must be {LEAST_THRESHOLD} or more, not {value}", f"{path}.compact_threshold")
    return ContextWish(WISH, {"threshold": value or USUAL_THRESHOLD})


def _is_trigger(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == TRIGGER


def without_triggers(items: Iterable[Any]) -> list[Any]:
    """Items of earlier turns, whose triggers have had their effect."""
    return [item for item in items if not _is_trigger(item)]


# --- the item ----------------------------------------------------------------------------------------


def new_item(new_id: Callable[[str], str]) -> dict[str, Any]:
    return {"type": ITEM, "id": new_id(ID_PREFIX), "encrypted_content": ""}


def sealed_item(summary: WrittenSummary, seal: SummarySeal) -> str:
    """The item's `encrypted_content`."""
    stands_for = StandsFor.ALL_BUT_MESSAGES if summary.alone else StandsFor.EVERYTHING
    return seal.close(summary.text or "", stands_for)


def compact(contents: list[Content], kept: int, opened: OpenedSummary) -> int:
    """Put the summary in the place of what it stands for. `kept`: how many turns at the beginning the summary
    before has kept; they are not looked at again. Returns how many this one keeps."""
    if opened.stands_for is StandsFor.ALL_BUT_MESSAGES:
        contents[kept:] = filter(_is_message, contents[kept:])
    else:
        contents.clear()
    contents.append(summary_turn(opened.text))
    return len(contents) - 1


def _is_message(turn: Content) -> bool:
    """Whether the client wrote the turn: it is neither the model's, nor results, nor an earlier summary."""
    results = any(isinstance(part.data, FunctionResponse) for part in turn.parts)
    return turn.role == USER and not results and not is_summary_turn(turn)


# --- POST /v1/responses/compact ----------------------------------------------------------------------


def _request(body: JsonObject) -> JsonObject:
    """The request whose answer is the item."""
    items = input_list(body["input"])
    if not items:
        raise invalid_field("there is nothing to compact; send items or a previous_response_id", "input")
    carried = {name: body[name] for name in _CARRIED if body.get(name) is not None}
    return {**carried, "input": [*without_triggers(items), {"type": TRIGGER}]}


def _body(body: JsonObject, answer: JsonObject) -> JsonObject:
    """The compacted conversation, from the client's request and the response with the item."""
    kept = [complete_item(item) for item in input_list(body["input"]) if _is_kept(item)]
    return {
        "id": answer["id"],
        "object": "response.compaction",
        "created_at": answer["created_at"],
        "output": [*kept, *answer["output"]],
        "usage": answer["usage"],
    }


def _is_kept(item: JsonObject) -> bool:
    return item.get("type", "message") == "message" and item.get("role") in _KEPT_ROLES


COMPACTION = Compaction(
    paths=("/v1/responses/compact",), schema=CompactionSchema(), request=_request, body=_body
)
