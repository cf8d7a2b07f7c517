"""The top-level fields of a Chat Completions request with their types and ranges.

The converter checks messages, tools and content parts, and its errors name the path. Nested schemas would
take forty times as long. Unknown fields are accepted: agents add new ones every month.
"""

from __future__ import annotations

from bridge.protocols import fields
from bridge.protocols.envelope import Envelope
from bridge.protocols.openai_chat.machine import MAX_CHOICES
from bridge.protocols.openai_tiers import TIERS


class ChatSchema(Envelope):
    model = fields.text(required=True, longest=256)
    messages = fields.array(required=True)
    stream = fields.flag()
    stream_options = fields.mapping()

    temperature = fields.number(0, 2)
    top_p = fields.number(0, 1)
    top_k = fields.whole(1)
    n = fields.whole(1, MAX_CHOICES)
    seed = fields.whole()
    presence_penalty = fields.number(-2, 2)
    frequency_penalty = fields.number(-2, 2)
    max_tokens = fields.whole(1)
    max_completion_tokens = fields.whole(1)
    logprobs = fields.flag()
    top_logprobs = fields.whole(0, 20)
    logit_bias = fields.mapping()
    modalities = fields.array()
    service_tier = fields.one_of(*TIERS)

    response_format = fields.mapping()
    reasoning_effort = fields.one_of("none", "minimal", "low", "medium", "high", "xhigh", "max")

    tools = fields.array()
    parallel_tool_calls = fields.flag()
    functions = fields.array()
    web_search_options = fields.mapping()
