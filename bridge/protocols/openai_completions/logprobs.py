"""Gemini's log probabilities as legacy Completions shows them."""

from __future__ import annotations

from itertools import accumulate, zip_longest
from typing import Any

from bridge.gemini.types import JsonObject


def logprobs_from_gemini(result: JsonObject, offset: int) -> dict[str, list[Any]]:
    """`offset` is where the first of the tokens stands in the text."""
    chosen = [_token(each) for each in _listed(result, "chosenCandidates")]
    others = [_listed(step, "candidates") for step in _listed(result, "topCandidates")][: len(chosen)]
    tokens = [token for token, _ in chosen]
    return {
        "tokens": tokens,
        "token_logprobs": [logprob for _, logprob in chosen],
        # The vendor's list of the likeliest always has the chosen token too.
        "top_logprobs": [
            dict([*map(_token, top or ()), token]) for token, top in zip_longest(chosen, others)
        ],
        "text_offset": list(accumulate(map(len, tokens[:-1]), initial=offset)) if tokens else [],
    }


def _listed(holder: JsonObject, key: str) -> list[JsonObject]:
    items = holder.get(key) if isinstance(holder, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _token(candidate: JsonObject) -> tuple[str, float]:
    return str(candidate.get("token") or ""), candidate.get("logProbability", 0.0)
