"""Extracts the text of an answer in each protocol, streamed or whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]


def answer_text(protocol: str, body: bytes, stream: bool) -> str:
    streamed, whole = READERS[protocol]
    if not stream:
        return "".join(whole(json.loads(body)))
    return "".join(piece for event in _events(body) for piece in streamed(event))


def _events(body: bytes) -> Iterator[Json]:
    for line in body.split(b"\n"):
        if line.startswith(b"data: ") and line != b"data: [DONE]":
            yield json.loads(line.removeprefix(b"data: "))


def _chat_event(event: Json) -> Iterator[str]:
    return (choice["delta"].get("content") or "" for choice in event.get("choices", ()))


def _chat(answer: Json) -> Iterator[str]:
    return (choice["message"]["content"] or "" for choice in answer["choices"])


def _responses_event(event: Json) -> Iterator[str]:
    if event.get("type") == "response.output_text.delta":
        yield event["delta"]


def _responses(answer: Json) -> Iterator[str]:
    return (part["text"] for item in answer["output"] for part in item.get("content", ()))


def _messages_event(event: Json) -> Iterator[str]:
    if event.get("type") == "content_block_delta":
        yield event["delta"].get("text", "")


def _messages(answer: Json) -> Iterator[str]:
    return (block.get("text", "") for block in answer["content"])


def _native(answer: Json) -> Iterator[str]:
    for candidate in answer.get("candidates", ()):
        for part in candidate.get("content", {}).get("parts", ()):
            yield part.get("text", "")


def _interactions_event(event: Json) -> Iterator[str]:
    if event.get("event_type") == "step.delta":
        yield event["delta"].get("text", "")


def _interactions(answer: Json) -> Iterator[str]:
    return (part["text"] for step in answer["steps"] for part in step.get("content", ()))


Reader = Callable[[Json], Iterator[str]]
READERS: dict[str, tuple[Reader, Reader]] = {
    "chat": (_chat_event, _chat),
    "responses": (_responses_event, _responses),
    "messages": (_messages_event, _messages),
    "native": (_native, _native),
    "interactions": (_interactions_event, _interactions),
}
