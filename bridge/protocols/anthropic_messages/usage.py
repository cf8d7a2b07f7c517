"""Token counts in the format of Messages."""

from __future__ import annotations

from typing import Any

from bridge.gemini.types import Usage


def usage_from_gemini(usage: Usage) -> dict[str, Any]:
    """Anthropic counts cached tokens separately from the input tokens."""
    return {
        "input_tokens": max(0, usage.prompt - usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }
