"""The envelope of a Messages request: types and ranges of its own fields.

The converter checks blocks. Unknown fields are accepted: `metadata`, beta fields and similar ones have no
counterpart in Gemini.
"""

from __future__ import annotations

from bridge.protocols import fields
from bridge.protocols.anthropic_messages.converter import SERVICE_TIERS
from bridge.protocols.envelope import Envelope


class MessagesCountSchema(Envelope):
    """The fields that counting tokens needs."""

    model = fields.text(required=True, longest=256)
    messages = fields.array(required=True)
    tools = fields.array()
    mcp_servers = fields.array()
    tool_choice = fields.mapping()
    thinking = fields.mapping()
    output_config = fields.mapping()
    context_management = fields.mapping()
    service_tier = fields.one_of(*SERVICE_TIERS)


class MessagesSchema(MessagesCountSchema):
    max_tokens = fields.whole(1, required=True)
    stream = fields.flag()
    temperature = fields.number(0, 1)
    top_p = fields.number(0, 1)
    top_k = fields.whole(0)
    stop_sequences = fields.array()
