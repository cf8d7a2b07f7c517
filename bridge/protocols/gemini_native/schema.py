"""The required fields of a native request, in either spelling.

`normalise.py` reads all other fields. Unknown fields are accepted and passed on to Gemini.
"""

from __future__ import annotations

from typing import Any

from bridge.protocols import fields
from bridge.protocols.envelope import Envelope
from bridge.protocols.gemini_native.normalise import normalise_names


class NativeSchema(Envelope):
    def load(self, data: Any, **options: Any) -> Any:
        return super().load(normalise_names(data), **options)


class GenerateSchema(NativeSchema):
    contents = fields.mapping_or_array(required=True)


class NativeCountSchema(NativeSchema):
    """Contents or a whole request; the converter checks that it is one of the two."""

    contents = fields.mapping_or_array()


class EmbeddingSchema(NativeSchema):
    """One request or several, depending on the method."""

    requests = fields.mapping_or_array()
