"""Rules for conversations: what clients send for them, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridge.gemini.types import JsonObject
from bridge.protocols import fields
from bridge.protocols.base import ConversationRules
from bridge.protocols.envelope import Envelope
from bridge.protocols.json_reading import each_object, invalid_field
from bridge.protocols.openai_responses.compaction import without_triggers
from bridge.protocols.openai_responses.complete_items import complete_item, input_list
from bridge.protocols.openai_responses.items import Items
from bridge.protocols.openai_responses.tools import DeclaredTools
from bridge.protocols.summary_seal import SummarySeal, is_ours

ID_PREFIX = "conv_"
LONGEST_ID = 128
MOST_ITEMS = 20  #: items that one request may add
MOST_METADATA, LONGEST_NAME, LONGEST_VALUE = 16, 64, 512


class CreateSchema(Envelope):
    metadata = fields.mapping()
    items = fields.array()


class UpdateSchema(Envelope):
    metadata = fields.mapping(required=True)


class AddSchema(Envelope):
    items = fields.array(required=True)


def _named(body: JsonObject) -> str | None:
    """The id of the conversation that a request for a response names."""
    given = body.get("conversation")
    if given is None:
        return None
    if body.get("previous_response_id") is not None:
        raise invalid_field("cannot be combined with previous_response_id; send one of them", "conversation")
    conversation_id = given.get("id") if isinstance(given, dict) else given
    if not isinstance(conversation_id, str) or not 0 < len(conversation_id) <= LONGEST_ID:
        raise invalid_field("must be a conversation's id, or an object with its id", "conversation")
    return conversation_id


def _metadata(body: JsonObject) -> dict[str, str]:
    given: dict[str, Any] = body.get("metadata") or {}
    if len(given) > MOST_METADATA:
        raise invalid_field(f"must have at most {MOST_METADATA} entries", "metadata")
    for name, value in given.items():
        if len(name) > LONGEST_NAME:
            raise invalid_field(f"its names must have at most {LONGEST_NAME} characters", "metadata")
        if not isinstance(value, str) or len(value) > LONGEST_VALUE:
            raise invalid_field(f"must be a string of at most {LONGEST_VALUE} characters", f"metadata.{name}")
    return given


def _new_items(body: JsonObject) -> list[dict[str, Any]]:
    """The items that a client adds, checked as if they were the input of a request."""
    given = body.get("items") or []
    if len(given) > MOST_ITEMS:
        raise invalid_field(f"must have at most {MOST_ITEMS} items; send several requests", "items")
    reader = Items(DeclaredTools(), SummarySeal())
    for path, item in each_object(given, "items"):
        if is_ours(item.get("encrypted_content")):  # checked when a request uses it
            continue
        reader.add(item, path)
        if reader.losses:
            raise invalid_field("items of this type cannot be added to a conversation", f"{path}.type")
    return [complete_item(item) for item in given]


def _identified(body: JsonObject) -> JsonObject:
    items = input_list(body["input"])
    return {**body, "input": [complete_item(item) if isinstance(item, dict) else item for item in items]}


def _with_items(body: JsonObject, items: Sequence[JsonObject]) -> JsonObject:
    return {**body, "input": [*items, *body["input"]]}


def _added(body: JsonObject, answer: JsonObject) -> list[dict[str, Any]]:
    """The items that a finished response adds to its conversation."""
    given = [item for item in without_triggers(body["input"]) if isinstance(item, dict)]
    return [*given, *map(complete_item, answer["output"])]


def _body(conversation_id: str, created: int, metadata: Mapping[str, str]) -> JsonObject:
    return {"id": conversation_id, "object": "conversation", "created_at": created, "metadata": metadata}


CONVERSATIONS = ConversationRules(
    path="/v1/conversations",
    id_prefix=ID_PREFIX,
    create_schema=CreateSchema(),
    update_schema=UpdateSchema(),
    add_schema=AddSchema(),
    named=_named,
    metadata=_metadata,
    new_items=_new_items,
    identified=_identified,
    with_items=_with_items,
    added=_added,
    body=_body,
    deletion_body=lambda conversation_id: {
        "id": conversation_id,
        "object": "conversation.deleted",
        "deleted": True,
    },
)
