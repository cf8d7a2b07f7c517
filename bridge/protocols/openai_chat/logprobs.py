"""Gemini's log probabilities as Chat Completions shows them."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from bridge.gemini.types import JsonObject


def logprobs_from_gemini(result: JsonObject) -> dict[str, Any]:
    chosen = result.get("chosenCandidates") or []
    others = [step.get("candidates") or [] for step in result.get("topCandidates") or []]
    content = [
        {**_token(token), "top_logprobs": [_token(other) for other in top or ()]}
        for token, top in zip_longest(chosen, others[: len(chosen)])
    ]
    return {"content": content, "refusal": None}


def _token(candidate: JsonObject) -> dict[str, Any]:
    token = candidate.get("token", "")
    return {"token": token, "logprob": candidate.get("logProbability", 0.0), "bytes": list(token.encode())}
