"""Answers with what neither the transcripts nor the demo models have.

For example log probabilities, and calls of every kind of tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checked_answers import CHECKED_CALLERS, Answer, of_run
from conversations import CONVERSATIONS
from other_options import OPTIONS
from transcripts import Run

from bridge.gemini.wire import chunk_from_json

_TOKENS = [{"token": "Hi", "logProbability": -0.5}, {"token": "Ho", "logProbability": -1.5}]
_LOGPROBS = {"chosenCandidates": _TOKENS[:1], "topCandidates": [{"candidates": _TOKENS}]}
_CALLS: list[dict[str, Any]] = [
    {"name": "note", "args": {"input": "x"}, "id": "c1"},
    {"name": "local_shell", "args": {"command": ["ls"]}, "id": "c2"},
    {"name": "local_shell", "id": "c3"},
    {"name": "sky__look", "args": {}, "id": "c4"},
    {"name": "undeclared", "args": {}, "id": "c5"},
]
_PARTS: list[dict[str, Any]] = [
    {"text": "Hm.", "thought": True},
    {"text": "Hi"},
    {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
    {"executableCode": {"language": "PYTHON", "code": "1 / 0"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
    {"text": "Ho"},
]


def _chunks(parts: list[dict[str, Any]], finish: str) -> list[Any]:
    candidates: list[dict[str, Any]] = [
        {"content": {"role": "model", "parts": [part]}, "index": 0}
        | ({"logprobsResult": _LOGPROBS} if "text" in part else {})
        for part in parts
    ]
    candidates[-1]["finishReason"] = finish
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    return [chunk_from_json({"candidates": [each], "usageMetadata": usage}) for each in candidates]


_STREAMS = {
    "stopped": _chunks(_PARTS, "STOP"),
    "cut": _chunks(_PARTS, "MAX_TOKENS"),
    "calls": _chunks([*_PARTS, *({"functionCall": call} for call in _CALLS)], "STOP"),
}


def of_streams() -> Iterator[Answer]:
    for told in CHECKED_CALLERS:
        conversation = CONVERSATIONS[told.protocol.name]
        for label, fields in OPTIONS.get(told.protocol.name, {}).items():
            for name, chunks in _STREAMS.items():
                body = {**conversation.opening, **fields}
                run = Run(told.protocol, body, caller=conversation.callers[told.caller])
                yield from of_run(run, chunks, f"stream {name} with {label}", told)
