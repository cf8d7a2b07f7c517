"""Truncates long tool results: Gemini gets the beginning and the end; the client keeps the whole result.

Long texts are truncated in place. An object that is still too long, because of many short texts, is
truncated as JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from bridge.gemini.types import Content, FunctionResponse, GenerateRequest, JsonObject, Part
from bridge.guards.base import Guard

HEAD_SHARE = 0.2
MAX_DEPTH = 32
TOLERANCE = 0.1  #: an object may exceed the limit by this share
MARKER_RESERVE = 100  #: characters for the marker, so that a truncated text is within the limit


class LargeOutput(Guard):
    name = "large_output"

    def on_request(self, request: GenerateRequest) -> GenerateRequest:
        if all(self._fits(part) for content in request.contents for part in content.parts):
            return request
        contents = tuple(map(self._limit_content, request.contents))
        changed = any(new is not old for new, old in zip(contents, request.contents, strict=True))
        return replace(request, contents=contents) if changed else request

    def _limit_content(self, content: Content) -> Content:
        parts = tuple(map(self._limit_part, content.parts))
        changed = any(new is not old for new, old in zip(parts, content.parts, strict=True))
        return replace(content, parts=parts) if changed else content

    def _limit_part(self, part: Part) -> Part:
        if self._fits(part) or not isinstance(part.data, FunctionResponse):
            return part
        response = self._limit_object(self._truncate_texts(part.data.response, 0))
        if response is part.data.response:
            return part
        return replace(part, data=replace(part.data, response=response))

    def _fits(self, part: Part) -> bool:
        """Fast check that succeeds for nearly all parts: no result, or texts within the limit."""
        if not isinstance(part.data, FunctionResponse):
            return True
        texts = part.data.response.values()
        if not all(type(text) is str for text in texts):
            return False
        return sum(map(len, texts)) <= self.settings.large_output.most_characters

    def _limit_object(self, response: JsonObject) -> JsonObject:
        limit = self.settings.large_output.most_characters
        if _length(response, 0) <= limit * (1 + TOLERANCE):
            return response
        try:
            text = orjson.dumps(dict(response), option=orjson.OPT_INDENT_2).decode()
        except orjson.JSONEncodeError:
            return response
        return {"result": truncate(text, limit)}

    def _truncate_texts(self, value: Any, depth: int) -> Any:
        """The value with its long texts truncated; the same object if it has none."""
        if isinstance(value, str):
            return truncate(value, self.settings.large_output.most_characters)
        if depth > MAX_DEPTH:
            return value
        if isinstance(value, Mapping):
            mapped = {key: self._truncate_texts(item, depth + 1) for key, item in value.items()}
            return mapped if any(mapped[key] is not value[key] for key in value) else value
        if isinstance(value, list):
            listed = [self._truncate_texts(item, depth + 1) for item in value]
            if all(isinstance(item, str) for item in listed):
                together = "\n".join(listed)
                limit = self.settings.large_output.most_characters
                if len(together) > limit:
                    return truncate(together, limit).split("\n")
            return listed if any(new is not old for new, old in zip(listed, value, strict=True)) else value
        return value


def _length(value: Any, depth: int) -> int:
    if isinstance(value, str):
        return len(value)
    if depth > MAX_DEPTH:
        return 0
    if isinstance(value, Mapping):
        return sum(len(str(key)) + _length(item, depth + 1) for key, item in value.items())
    if isinstance(value, list):
        return sum(_length(item, depth + 1) for item in value)
    return len(str(value))


def truncate(text: str, limit: int) -> str:
    """The first fifth and the end of the text, cut at line ends if possible, with a marker for the missing
    part."""
    if len(text) <= limit:
        return text
    head = text[: int(limit * HEAD_SHARE)]
    tail = text[-(limit - len(head) - MARKER_RESERVE) :]
    end, start = head.rfind("\n") + 1, tail.find("\n") + 1
    head = head[:end] if end > len(head) // 2 else head  # keep a partial line rather than lose a long one
    tail = tail[start:] if start < len(tail) // 2 else tail
    missing = text[len(head) : len(text) - len(tail)]
    mark = f"[… {len(missing)} characters in {missing.count(chr(10))} lines left out …]"
    gap = "" if head.endswith("\n") else "\n"
    return f"{head}{gap}{mark}\n{tail}"
