"""What OpenAI's two completion APIs share in their streams: the end mark, the encoding and the usage."""

from __future__ import annotations

from typing import Any

from bridge.gemini.types import Usage
from bridge.protocols.base import Event
from bridge.protocols.sse import encode_data

DONE = Event("done", None)


def encode(event: Event) -> bytes:
    return b"data: [DONE]\n\n" if event is DONE else encode_data(event)


def usage_from_gemini(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.thoughts},
    }
