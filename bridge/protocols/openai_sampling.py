"""The sampling fields that OpenAI's two completion APIs share, as Gemini's `generationConfig`."""

from __future__ import annotations

from typing import Any

from bridge.gemini.types import JsonObject

_SEED_BITS = 0x7FFF_FFFF

#: Same meaning on both sides.
_SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "n": "candidateCount",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}


def sampling_from_openai(body: JsonObject) -> dict[str, Any]:
    sampling = {ours: body[theirs] for theirs, ours in _SAMPLING.items() if body.get(theirs) is not None}
    if body.get("seed") is not None:
        sampling["seed"] = body["seed"] & _SEED_BITS  # Gemini's seed has 32 bits
    return sampling
