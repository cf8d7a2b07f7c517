"""Preserves the order of Gemini's parts in chat messages, which have no order.

A chat message has one field for its text, one for its reasoning and one for its calls. The default order is:
reasoning, text, calls. If Gemini's order was different, or if a part other than a call was signed, the
message carries a layout in `extra_content.google.parts`. Each entry is a part without its data; "text" is the
number of characters to take from the message's own fields. A layout that does not match the message, because
the client edited the text, is ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from bridge.gemini.types import FunctionCall, InlineData, JsonObject, Part
from bridge.gemini.wire import part_from_json, part_to_json

Entry = dict[str, Any]


def part_layout(parts: Sequence[Part]) -> list[Entry] | None:
    """The layout that the message must carry, or None if the default order restores these parts."""
    if default_order(parts) == list(parts):
        return None
    return [_entry(part) for part in parts]


def default_order(parts: Iterable[Part]) -> list[Part]:
    """The parts that result from reading a message of these parts without a layout."""
    reasoning = answer = ""
    calls: list[Part] = []
    for part in parts:
        if isinstance(part.data, str) and part.thought:
            reasoning += part.data
        elif isinstance(part.data, str):
            answer += part.data
        elif isinstance(part.data, FunctionCall):
            calls.append(replace(part, extra={}, thought=False))
    return [*default_parts(reasoning, answer), *calls]


def default_parts(reasoning: str, answer: str) -> list[Part]:
    thought = [Part(reasoning, thought=True)] if reasoning else []
    return [*thought, Part(answer)] if answer else thought


def _entry(part: Part) -> Entry:
    match part.data:
        case str() as text:
            return {"text": len(text), **part_to_json(replace(part, data=None))}
        case FunctionCall():
            return {"call": True, **part_to_json(replace(part, data=None, signature=None))}
        case InlineData():
            return {"image": True, **part_to_json(replace(part, data=None))}
        case _:
            return part_to_json(part)


def arrange(
    layout: Sequence[JsonObject], reasoning: str, answer: str, calls: Sequence[Part], images: Sequence[Part]
) -> list[Part] | None:
    """The parts in Gemini's order, or None if the layout does not match the message."""
    contents = _MessageContents(reasoning, answer, calls, images)
    if not all(isinstance(entry, dict) for entry in layout):
        return None
    try:
        parts = [contents.part(dict(entry)) for entry in layout]
    except (IndexError, TypeError, ValueError):
        return None
    return parts if contents.empty else None


class _MessageContents:
    """The contents of a message, consumed from the front without copying the rest: a layout may have a
    hundred thousand entries."""

    def __init__(self, reasoning: str, answer: str, calls: Iterable[Part], images: Iterable[Part]) -> None:
        self._text = {True: reasoning, False: answer}
        self._positions = {True: 0, False: 0}  #: characters of each text
        self._calls = deque(calls)
        self._images = deque(images)

    @property
    def empty(self) -> bool:
        text_left = any(self._positions[thought] < len(text) for thought, text in self._text.items())
        return not (text_left or self._calls or self._images)

    def part(self, entry: Entry) -> Part:
        if entry.pop("call", False):
            call = self._calls.popleft()
            return replace(part_from_json(entry), data=call.data, signature=call.signature)
        if entry.pop("image", False):
            return replace(part_from_json(entry), data=self._images.popleft().data)
        if "text" in entry:
            entry["text"] = self._take(entry.get("thought") is True, entry["text"])
        return part_from_json(entry)

    def _take(self, thought: bool, length: Any) -> str:
        text, start = self._text[thought], self._positions[thought]
        if type(length) is not int or not 0 <= length <= len(text) - start:
            raise ValueError("the layout counts text that the message does not have")
        self._positions[thought] = start + length
        return text[start : start + length]
