"""The top-level fields of an Interactions request with their types and ranges.

The converter checks steps, contents and tools. Unknown fields are accepted, as in the other protocols. Fields
for features that only Google's own servers offer are rejected by name.
"""

from __future__ import annotations

from bridge.protocols import fields
from bridge.protocols.envelope import Envelope


class InteractionSchema(Envelope):
    agent = fields.unsupported("the bridge does not support agents; name a model")
    agent_config = fields.unsupported("the bridge does not support agents; name a model")
    environment = fields.unsupported("the bridge does not support environments; leave it out")
    webhook_config = fields.unsupported(
        "the bridge does not support webhooks; request the stored answer instead"
    )
    continuation_token = fields.unsupported(
        "the bridge issues no continuation tokens; send the request again"
    )

    model = fields.text(required=True, longest=256)
    input = fields.text_array_or_mapping(required=True)
    system_instruction = fields.any_text()
    stream = fields.flag()
    store = fields.flag()
    background = fields.flag()
    previous_interaction_id = fields.text(longest=128)

    tools = fields.array()
    generation_config = fields.mapping()
    response_format = fields.mapping_or_array()
    response_mime_type = fields.text(longest=128)
    response_modalities = fields.array()
    safety_settings = fields.array()
    cached_content = fields.text(longest=256)
    service_tier = fields.one_of("standard", "flex", "priority")
    labels = fields.mapping()


class GenerationSchema(Envelope):
    """The `generation_config` of a request."""

    speech_config = fields.unsupported("the bridge does not support speech here; use generateContent")
    transcription_config = fields.unsupported(
        "the bridge does not support transcription here; use generateContent"
    )
    video_config = fields.unsupported("the bridge does not support video here; use generateContent")

    max_output_tokens = fields.whole(1)
    temperature = fields.number(0, 2)
    top_p = fields.number(0, 1)
    top_k = fields.whole(1)
    seed = fields.whole(-(1 << 31), (1 << 31) - 1)
    presence_penalty = fields.number(-2, 2)
    frequency_penalty = fields.number(-2, 2)
    stop_sequences = fields.array()
    thinking_level = fields.one_of("minimal", "low", "medium", "high", "xhigh")
    thinking_summaries = fields.one_of("auto", "none")
    image_config = fields.mapping()
