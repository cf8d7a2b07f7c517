"""Builds the whole message from the events of a finished answer, like a client's SDK."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from bridge.gemini.types import JsonObject
from bridge.protocols.anthropic_messages.context_management import CONTEXT_MANAGEMENT


def fold_message(events: Iterable[JsonObject]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    blocks: list[_Block] = []
    for event in events:
        match event["type"]:
            case "message_start":
                message = dict(event["message"])
            case "content_block_start":
                blocks.append(_Block(event["content_block"]))
            case "content_block_delta":
                blocks[-1].add(event["delta"])
            case "message_delta":
                message.update(event["delta"], usage={**message["usage"], **event["usage"]})
                if CONTEXT_MANAGEMENT in event:
                    message[CONTEXT_MANAGEMENT] = event[CONTEXT_MANAGEMENT]
    return {**message, "content": [block.whole() for block in blocks]}


class _Block:
    def __init__(self, start: JsonObject) -> None:
        self._fields = dict(start)
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[JsonObject] = []

    def add(self, delta: JsonObject) -> None:
        for field, piece in delta.items():
            if field == "citation":
                self._citations.append(piece)
            elif field != "type" and piece is not None:
                self._pieces.setdefault(field, []).append(piece)

    def whole(self) -> dict[str, Any]:
        texts = {field: "".join(pieces) for field, pieces in self._pieces.items()}
        partial = texts.pop("partial_json", None)
        if partial is not None:
            self._fields["input"] = orjson.loads(partial)
        cited = {"citations": self._citations} if self._citations else {}
        return {**self._fields, **texts, **cited}
