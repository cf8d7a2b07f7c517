"""Merges the chunks of a finished answer to the body that Google sends without streaming.

Neighbouring texts become one text; a signed part is never joined with another. For a repeated field the last
value counts, except for lists that grow with the text: log probabilities and citations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridge.gemini.types import JsonObject

#: Lists inside a candidate's fields that arrive in pieces.
GROWING = frozenset({"chosenCandidates", "topCandidates", "citationSources", "citations"})


def fold_chunks(chunks: Iterable[JsonObject]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    candidates: dict[int, _Candidate] = {}
    for chunk in chunks:
        for candidate in chunk.get("candidates", ()):
            candidates.setdefault(candidate.get("index") or 0, _Candidate()).add(candidate)
        answer.update({name: value for name, value in chunk.items() if name != "candidates"})
    if not candidates:
        return answer
    return {"candidates": [candidates[number].whole() for number in sorted(candidates)], **answer}


class _Candidate:
    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._content: dict[str, Any] | None = None
        self._parts: list[dict[str, Any]] = []
        self._texts: list[str] = []  # of the last part, while it grows

    def add(self, candidate: JsonObject) -> None:
        content = candidate.get("content")
        if content is not None:
            self._content = {**(self._content or {}), **content}
            for part in content.get("parts", ()):
                self._add_part(part)
        for name, value in candidate.items():
            if name != "content":
                self._fields[name] = _joined(self._fields.get(name), value)

    def _add_part(self, part: JsonObject) -> None:
        if not _is_plain(part):
            self._flush_text()
            self._parts.append(dict(part))
        elif part["text"]:
            if not self._texts or part.get("thought") != self._parts[-1].get("thought"):
                self._flush_text()
                self._parts.append(dict(part))
            self._texts.append(part["text"])

    def _flush_text(self) -> None:
        if self._texts:
            self._parts[-1]["text"] = "".join(self._texts)
            self._texts = []

    def whole(self) -> dict[str, Any]:
        self._flush_text()
        if self._content is None:
            return self._fields
        content = {name: value for name, value in self._content.items() if name != "parts"}
        if self._parts:
            content = {"parts": self._parts, **content}
        return {"content": content, **self._fields}


def _is_plain(part: JsonObject) -> bool:
    """Whether the part has no fields but `text` and `thought`."""
    return isinstance(part.get("text"), str) and part.keys() <= {"text", "thought"}


def _joined(before: Any, value: Any) -> Any:
    """`before` is the previous result of this function. The fold owns it, so it grows in place."""
    if not isinstance(value, dict):
        return value
    joined: dict[str, Any] = before if isinstance(before, dict) else {}
    for name, said in value.items():
        grows = name in GROWING and isinstance(said, list)
        if grows and isinstance(joined.get(name), list):
            joined[name].extend(said)
        else:
            joined[name] = list(said) if grows else said
    return joined
