"""The envelope of a native request: what must be there, in either spelling.

All that is inside is read by `normalise.py`. Unknown fields pass, and reach Gemini.
"""

from __future__ import annotations

from typing import Any

from bridge.protocols import fields
from bridge.protocols.envelope import Envelope
from bridge.protocols.gemini_native.normalise import in_one_spelling


class NativeSchema(Envelope):
    def load(self, data: Any, **options: Any) -> Any:
        return super().load(in_one_spelling(data), **options)


class GenerateSchema(NativeSchema):
    contents = fields.mapping_or_array(required=True)


class NativeCountSchema(NativeSchema):
    """Of contents alone, or of a whole request; the converter looks for one of the two."""

    contents = fields.mapping_or_array()


class EmbeddingSchema(NativeSchema):
    """Of one request or of several, as the method says."""

    requests = fields.mapping_or_array()
