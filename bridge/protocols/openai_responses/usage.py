"""The token counts of a response."""

from __future__ import annotations

from typing import Any

from bridge.gemini.types import Usage


def usage_from_gemini(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.thoughts},
        "total_tokens": usage.total,
    }
