"""The top-level fields of a Responses request with their types and ranges.

The converter checks items and tools. Unknown fields are accepted: agents add new ones every month.
"""

from __future__ import annotations

from typing import Any

from bridge.protocols import fields
from bridge.protocols.envelope import Envelope
from bridge.protocols.openai_responses.truncation import AUTO, DISABLED
from bridge.protocols.openai_tiers import TIERS


class ResponsesSchema(Envelope):
    model = fields.text(required=True, longest=256)
    input = fields.text_or_array(required=True)
    instructions = fields.any_text()
    stream = fields.flag()
    store = fields.flag()
    background = fields.flag()
    previous_response_id = fields.text(longest=128)

    temperature = fields.number(0, 2)
    top_p = fields.number(0, 1)
    presence_penalty = fields.number(-2, 2)
    frequency_penalty = fields.number(-2, 2)
    top_logprobs = fields.whole(0, 20)
    max_output_tokens = fields.whole(1)
    parallel_tool_calls = fields.flag()
    tools = fields.array()
    include = fields.array()
    reasoning = fields.mapping()
    text = fields.mapping()
    metadata = fields.mapping()
    service_tier = fields.one_of(*TIERS)

    # The response repeats most of these, so a wrong type would make it wrong too.
    context_management = fields.array()
    max_tool_calls = fields.whole(0)
    prompt_cache_key = fields.any_text()
    safety_identifier = fields.any_text()
    stream_options = fields.mapping()
    truncation = fields.one_of(AUTO, DISABLED)
    user = fields.any_text()


class OptionalInputSchema(ResponsesSchema):
    """For endpoints whose requests may consist of stored turns only."""

    input = fields.text_or_array()

    def load(self, data: Any, **options: Any) -> Any:
        return _with_input(super().load(data, **options))


class CompactionSchema(Envelope):
    """A request that only compacts a conversation: it has no tools and no settings."""

    model = fields.text(required=True, longest=256)
    input = fields.text_or_array()
    instructions = fields.any_text()
    previous_response_id = fields.text(longest=128)
    service_tier = fields.one_of(*TIERS)

    def load(self, data: Any, **options: Any) -> Any:
        return _with_input(super().load(data, **options))


def _with_input(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "input": body.get("input") or []}
