"""Embeddings of the demo model, for trials only: texts with common words have similar vectors."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from bridge.gemini.types import JsonObject
from bridge.gemini.wire import content_from_json

USUAL_SIZE = 64
LARGEST_SIZE = 3072
_WORD = re.compile(r"\w+")


def answer(method: str, body: JsonObject) -> dict[str, Any]:
    """The answer of `models/{model}:{method}` to this body."""
    if method == "batchEmbedContents":
        requests = body["requests"]
        return {"embeddings": [_embedding(request) for request in requests], **_usage(requests)}
    return {"embedding": _embedding(body), **_usage([body])}


def _embedding(request: JsonObject) -> dict[str, Any]:
    return {"values": vector(_text(request), _size(request.get("outputDimensionality")))}


def _text(request: JsonObject) -> str:
    parts = content_from_json(request["content"]).parts
    return " ".join(part.data for part in parts if isinstance(part.data, str))


def _usage(requests: Sequence[JsonObject]) -> dict[str, Any]:
    """A word is a token."""
    tokens = sum(len(_WORD.findall(_text(request))) for request in requests)
    return {"usageMetadata": {"promptTokenCount": tokens}}


def _size(wanted: Any) -> int:
    return wanted if isinstance(wanted, int) and 1 <= wanted <= LARGEST_SIZE else USUAL_SIZE


def vector(text: str, size: int) -> list[float]:
    """Each word adds 1 to or subtracts 1 from one number; the vector is normalised to length 1."""
    values = [0.0] * size
    for word in _WORD.findall(text.lower()) or [""]:
        digest = int.from_bytes(sha256(word.encode()).digest()[:8], "big")
        values[digest % size] += 1.0 if digest >> 63 else -1.0
    length = math.hypot(*values) or 1.0
    return [round(value / length, 6) for value in values]
