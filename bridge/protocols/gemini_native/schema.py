"""The envelope of a native request: what must be there, in either spelling.

All that is inside is read by `spelling.py`. Unknown fields pass, and reach Gemini.
"""

from __future__ import annotations

from typing import Any

from marshmallow import INCLUDE, Schema, pre_load

from bridge.protocols import fields
from bridge.protocols.gemini_native.spelling import in_one_spelling


class NativeSchema(Schema):
    class Meta:
        unknown = INCLUDE

    @pre_load
    def spell(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        return in_one_spelling(data)


class GenerateSchema(NativeSchema):
    contents = fields.mapping_or_array(required=True)


class CountSchema(NativeSchema):
    """Of contents alone, or of a whole request; the converter looks for one of the two."""

    contents = fields.mapping_or_array()


class EmbeddingSchema(NativeSchema):
    """Of one request or of several, as the method says."""

    requests = fields.mapping_or_array()
