"""Converts Gemini's log probabilities to the format of Chat Completions and Responses."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from bridge.gemini.types import JsonObject


def logprobs_from_gemini(result: JsonObject) -> dict[str, Any]:
    chosen = _objects(result, "chosenCandidates")
    others = [_objects(step, "candidates") for step in _objects(result, "topCandidates")]
    content = [
        {**_token(token), "top_logprobs": [_token(other) for other in top or ()]}
        for token, top in zip_longest(chosen, others[: len(chosen)])
    ]
    return {"content": content, "refusal": None}


def _objects(holder: Any, key: str) -> list[JsonObject]:
    items = holder.get(key) if isinstance(holder, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _token(candidate: JsonObject) -> dict[str, Any]:
    token = str(candidate.get("token") or "")
    return {"token": token, "logprob": candidate.get("logProbability", 0.0), "bytes": list(token.encode())}
