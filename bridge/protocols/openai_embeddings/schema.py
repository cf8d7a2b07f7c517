"""The envelope of an Embeddings request. The converter reads the input, which has several forms."""

from __future__ import annotations

from bridge.protocols import fields
from bridge.protocols.envelope import Envelope
from bridge.protocols.openai_embeddings.answer import ENCODINGS


class EmbeddingsSchema(Envelope):
    model = fields.text(required=True, longest=256)
    input = fields.text_or_array(required=True)
    dimensions = fields.whole(1)
    encoding_format = fields.one_of(*ENCODINGS)
    user = fields.any_text()
