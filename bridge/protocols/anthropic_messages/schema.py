"""The envelope of a Messages request: types and ranges of its own fields.

Blocks are checked by the converter. Unknown fields pass: `metadata`, `context_management`, betas and their
kin ask for nothing that Gemini could do.
"""

from __future__ import annotations

from bridge.protocols import fields
from bridge.protocols.anthropic_messages.converter import SERVICE_TIERS
from bridge.protocols.envelope import Envelope


class MessagesCountSchema(Envelope):
    """What counting tokens needs; an answer needs a little more."""

    model = fields.text(required=True, longest=256)
    messages = fields.array(required=True)
    tools = fields.array()
    tool_choice = fields.mapping()
    thinking = fields.mapping()
    output_config = fields.mapping()


class MessagesSchema(MessagesCountSchema):
    max_tokens = fields.whole(1, required=True)
    stream = fields.flag()
    temperature = fields.number(0, 1)
    top_p = fields.number(0, 1)
    top_k = fields.whole(0)
    stop_sequences = fields.array()
    service_tier = fields.one_of(*SERVICE_TIERS)
