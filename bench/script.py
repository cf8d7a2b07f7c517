"""The answer that the fake Gemini gives. The fake sends it, and the client checks that it arrives.

The script is encoded in the model's name, which every gateway passes on, or in the path of the upstream's
address: `gemini-bench-n200-p20` is 200 chunks with 20 milliseconds between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

CHUNK_CHARACTERS = 20
_NAMED = re.compile(r"gemini-bench-n(\d+)-p(\d+)")
_WORDS = "a gateway hands on every word in its order and drops none "
#: Ends of some chunks: wrong escaping would damage them.
_ENDINGS = {3: "\n", 5: '"\\', 7: "é😀"}


@dataclass(frozen=True, slots=True)
class Script:
    chunks: int
    pause_ms: int = 0

    @property
    def model(self) -> str:
        return f"gemini-bench-n{self.chunks}-p{self.pause_ms}"

    @classmethod
    def named_in(cls, path: str) -> Script:
        found = _NAMED.search(path)
        return cls(int(found[1]), int(found[2])) if found else cls(1)


def mark(number: int) -> str:
    """The beginning of a chunk's text, unique in an answer."""
    return f"@{number:05d}:"


@lru_cache(4096)
def chunk_text(number: int) -> str:
    ending = _ENDINGS.get(number % 10, "")
    start = number % len(_WORDS)
    filling = (_WORDS[start:] + _WORDS)[: CHUNK_CHARACTERS - len(mark(number)) - len(ending)]
    return mark(number) + filling + ending


@lru_cache
def whole_text(chunks: int) -> str:
    return "".join(map(chunk_text, range(chunks)))


def payload(text: str, said: int, finish: bool) -> dict[str, Any]:
    """A chunk or a whole answer in Gemini's format; each has token counts and names."""
    candidate: dict[str, Any] = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = "STOP"
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": 12,
            "candidatesTokenCount": 5 * said,
            "totalTokenCount": 12 + 5 * said,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 12}],
        },
        "modelVersion": "gemini-bench",
        "responseId": "bench-response-0001",
    }


def stream_payloads(chunks: int) -> list[dict[str, Any]]:
    return [payload(chunk_text(each), each + 1, finish=each == chunks - 1) for each in range(chunks)]


def whole_payload(chunks: int) -> dict[str, Any]:
    return payload(whole_text(chunks), chunks, finish=True)
