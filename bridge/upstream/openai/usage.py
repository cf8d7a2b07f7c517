"""The usage of an answer in Gemini's form; what the server does not count is estimated and marked."""

from __future__ import annotations

from typing import Any

from bridge.gemini.generation import CHARACTERS_PER_TOKEN
from bridge.gemini.types import ESTIMATED_USAGE, MAX_TOKEN_COUNT, JsonObject


def gemini_usage(
    counted: JsonObject | None, prompt_estimate: int, text: int, thoughts: int
) -> dict[str, Any]:
    """`text` and `thoughts` are the numbers of characters of the answer."""
    if counted is None or _count(counted, "prompt_tokens") is None:
        return _estimated(prompt_estimate, text, thoughts)
    prompt = _count(counted, "prompt_tokens") or 0
    output = _count(counted, "completion_tokens") or 0
    thinking = _count(_details(counted, "completion_tokens_details"), "reasoning_tokens")
    usage: dict[str, Any] = {}
    if thinking is None and thoughts:
        thinking = min(output, output * thoughts // max(1, text + thoughts))
        usage[ESTIMATED_USAGE] = ["thoughtsTokenCount"]
    thinking = min(thinking or 0, output)
    usage |= {"promptTokenCount": prompt, "candidatesTokenCount": output - thinking}
    if thinking:
        usage["thoughtsTokenCount"] = thinking
    if cached := _cached(counted):
        usage["cachedContentTokenCount"] = min(cached, prompt)
    return {**usage, "totalTokenCount": prompt + output}


def _cached(counted: JsonObject) -> int:
    named = _count(_details(counted, "prompt_tokens_details"), "cached_tokens")
    return named or _count(counted, "prompt_cache_hit_tokens") or 0


def _estimated(prompt: int, text: int, thoughts: int) -> dict[str, Any]:
    answer, thinking = -(-text // CHARACTERS_PER_TOKEN), -(-thoughts // CHARACTERS_PER_TOKEN)
    usage: dict[str, Any] = {"promptTokenCount": prompt, "candidatesTokenCount": answer}
    if thinking:
        usage["thoughtsTokenCount"] = thinking
    usage["totalTokenCount"] = prompt + answer + thinking
    return {**usage, ESTIMATED_USAGE: list(usage)}


def _details(counted: JsonObject, name: str) -> JsonObject:
    details = counted.get(name)
    return details if isinstance(details, dict) else {}


def _count(holder: JsonObject, name: str) -> int | None:
    value = holder.get(name)
    return value if type(value) is int and 0 <= value <= MAX_TOKEN_COUNT else None
