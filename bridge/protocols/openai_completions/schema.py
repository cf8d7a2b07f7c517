"""The envelope of a Completions request. The converter reads the prompt, which has several forms."""

from __future__ import annotations

from bridge.protocols import fields
from bridge.protocols.envelope import Envelope
from bridge.protocols.openai_completions.machine import MAX_CHOICES


class CompletionsSchema(Envelope):
    model = fields.text(required=True, longest=256)
    prompt = fields.any_text_or_array(required=True)
    suffix = fields.any_text()
    echo = fields.flag()
    stream = fields.flag()
    stream_options = fields.mapping()

    temperature = fields.number(0, 2)
    top_p = fields.number(0, 1)
    top_k = fields.whole(1)
    n = fields.whole(1, MAX_CHOICES)
    best_of = fields.whole(1, 20)
    seed = fields.whole()
    presence_penalty = fields.number(-2, 2)
    frequency_penalty = fields.number(-2, 2)
    max_tokens = fields.whole(1)
    logprobs = fields.whole(0, 5)
    logit_bias = fields.mapping()
    user = fields.any_text()
