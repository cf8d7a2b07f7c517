"""Gemini's vectors as OpenAI's Embeddings shows them.

OpenAI's vectors have the length 1, and clients compare them by their inner product. Gemini's shortened
vectors are longer or shorter, depending on the model, so the bridge normalises all of them.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from struct import pack
from typing import Any

from bridge.errors import UpstreamMalformed
from bridge.gemini.types import JsonObject

Vector = list[float]

FLOAT, BASE64 = "float", "base64"


def _packed(vector: Vector) -> str:
    """Little-endian floats of 32 bits."""
    return b64encode(pack(f"<{len(vector)}f", *vector)).decode()


ENCODINGS: Mapping[str, Callable[[Vector], Any]] = {FLOAT: lambda vector: vector, BASE64: _packed}


def encoded_vectors(encoding: str, answer: JsonObject, wanted: int) -> list[Any]:
    vectors = _vectors(answer)
    if len(vectors) != wanted:
        raise UpstreamMalformed(f"Gemini returned {len(vectors)} vectors for {wanted} texts")
    encode = ENCODINGS[encoding]
    return [encode(_normalised(vector)) for vector in vectors]


def embeddings_body(model: str, batches: Sequence[list[Any]], tokens: int) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": index, "embedding": encoded}
        for index, encoded in enumerate(chain.from_iterable(batches))
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _vectors(answer: JsonObject) -> list[Vector]:
    try:
        return [list(map(float, embedding["values"])) for embedding in answer["embeddings"]]
    except (KeyError, TypeError, ValueError):
        raise UpstreamMalformed("Gemini's answer has no vectors of numbers") from None


def _normalised(vector: Vector) -> Vector:
    length = math.hypot(*vector)
    return [value / length for value in vector] if length else vector
