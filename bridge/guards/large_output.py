"""A tool result too long for its worth: Gemini gets its beginning and its end; the client keeps the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bridge.gemini.types import Content, FunctionResponse, GenerateRequest, Part
from bridge.guards.base import Guard

BEGINNING = 0.2
DEEPEST = 32
MARK_ROOM = 100  #: so that a cut text is within the limit, and is not cut again


class LargeOutput(Guard):
    name = "large_output"

    def on_request(self, request: GenerateRequest) -> GenerateRequest:
        if all(self._is_fine(part) for content in request.contents for part in content.parts):
            return request
        contents = tuple(map(self._content, request.contents))
        changed = any(new is not old for new, old in zip(contents, request.contents, strict=True))
        return replace(request, contents=contents) if changed else request

    def _content(self, content: Content) -> Content:
        parts = tuple(map(self._part, content.parts))
        changed = any(new is not old for new, old in zip(parts, content.parts, strict=True))
        return replace(content, parts=parts) if changed else content

    def _part(self, part: Part) -> Part:
        if self._is_fine(part) or not isinstance(part.data, FunctionResponse):
            return part
        response = self._cut(part.data.response, 0)
        if response is part.data.response:
            return part
        return replace(part, data=replace(part.data, response=response))

    def _is_fine(self, part: Part) -> bool:
        """Nearly always: no result, or a few texts, none of them long."""
        if not isinstance(part.data, FunctionResponse):
            return True
        most = self.settings.large_output.most_characters
        return all(type(value) is str and len(value) <= most for value in part.data.response.values())

    def _cut(self, value: Any, depth: int) -> Any:
        """The value with its long texts cut; the same object if there are none."""
        if isinstance(value, str):
            return cut(value, self.settings.large_output.most_characters)
        if depth > DEEPEST:
            return value
        if isinstance(value, Mapping):
            mapped = {key: self._cut(item, depth + 1) for key, item in value.items()}
            return mapped if any(mapped[key] is not value[key] for key in value) else value
        if isinstance(value, list):
            listed = [self._cut(item, depth + 1) for item in value]
            if all(isinstance(item, str) for item in listed):
                together = "\n".join(listed)
                most = self.settings.large_output.most_characters
                if len(together) > most:
                    return cut(together, most).split("\n")
            return listed if any(new is not old for new, old in zip(listed, value, strict=True)) else value
        return value


def cut(text: str, most: int) -> str:
    """The first fifth and the end, cut at line ends where there are any, with a mark for what is missing."""
    if len(text) <= most:
        return text
    head = text[: int(most * BEGINNING)]
    tail = text[-(most - len(head) - MARK_ROOM) :]
    end, start = head.rfind("\n") + 1, tail.find("\n") + 1
    head = head[:end] if end > len(head) // 2 else head  # else one line would take too much with it
    tail = tail[start:] if start < len(tail) // 2 else tail
    missing = text[len(head) : len(text) - len(tail)]
    mark = f"[… {len(missing)} characters in {missing.count(chr(10))} lines left out …]"
    gap = "" if head.endswith("\n") else "\n"
    return f"{head}{gap}{mark}\n{tail}"
