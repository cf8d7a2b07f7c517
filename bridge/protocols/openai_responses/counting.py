"""Counts the input tokens of a request for a response."""

from __future__ import annotations

from typing import Any

from bridge.protocols import fields
from bridge.protocols.base import TokenCounting
from bridge.protocols.openai_responses.converter import to_gemini
from bridge.protocols.openai_responses.schema import OptionalInputSchema

#: The model of a request that names none: the bridge serves unknown names with its default model.
DEFAULT_MODEL = "default"


class ResponsesCountSchema(OptionalInputSchema):
    model = fields.text(longest=256)

    def load(self, data: Any, **options: Any) -> Any:
        body = super().load(data, **options)
        return {**body, "model": body.get("model") or DEFAULT_MODEL}


COUNTING = TokenCounting(
    paths=("/v1/responses/input_tokens",),
    schema=ResponsesCountSchema(),
    to_gemini=to_gemini,
    body=lambda counted, _asked: {"object": "response.input_tokens", "input_tokens": counted.tokens},
)
