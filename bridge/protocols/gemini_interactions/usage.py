"""Converts Gemini's token counts to the Interactions API."""

from __future__ import annotations

from typing import Any

from bridge.gemini.types import Usage

_BY_MODALITY = {
    "input_tokens_by_modality": "promptTokensDetails",
    "cached_tokens_by_modality": "cacheTokensDetails",
    "output_tokens_by_modality": "candidatesTokensDetails",
    "tool_use_tokens_by_modality": "toolUsePromptTokensDetails",
}


def usage_from_gemini(usage: Usage) -> dict[str, Any]:
    """The API counts thoughts separately from the output, like Gemini."""
    details = {ours: _by_modality(usage.raw.get(theirs)) for ours, theirs in _BY_MODALITY.items()}
    return {
        "total_tokens": usage.total,
        "total_input_tokens": usage.prompt - usage.tool_prompt,
        "total_cached_tokens": usage.cached,
        "total_output_tokens": usage.output - usage.thoughts,
        "total_thought_tokens": usage.thoughts,
        "total_tool_use_tokens": usage.tool_prompt,
        **{name: counts for name, counts in details.items() if counts},
    }


def _by_modality(details: Any) -> list[dict[str, Any]]:
    counts = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    return [
        {"modality": str(each.get("modality", "")).lower(), "tokens": each["tokenCount"]}
        for each in counts
        if type(each.get("tokenCount")) is int
    ]
