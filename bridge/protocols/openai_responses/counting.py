"""Counts the input tokens of a request for a response."""

from __future__ import annotations

from typing import Any

from bridge.protocols import fields
from bridge.protocols.base import TokenCounting
from bridge.protocols.openai_responses.converter import to_gemini
from bridge.protocols.openai_responses.schema import ResponsesSchema


class ResponsesCountSchema(ResponsesSchema):
    """Unlike a request for a response, it may consist of stored turns only."""

    input = fields.text_or_array()

    def load(self, data: Any, **options: Any) -> Any:
        body = super().load(data, **options)
        return {**body, "input": body.get("input") or []}


COUNTING = TokenCounting(
    paths=("/v1/responses/input_tokens",),
    schema=ResponsesCountSchema(),
    to_gemini=to_gemini,
    body=lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens},
)
