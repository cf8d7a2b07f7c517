"""Writes turns as a text for the model that summarises them.

Each line is one JSON object. A text in the conversation cannot end its line or pretend to be another turn,
because JSON escapes line ends and quotation marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from bridge.context.estimate import text_tokens
from bridge.gemini.types import (
    MODEL,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    JsonObject,
    OtherData,
    Part,
)

#: The longest value of a line in characters, smaller and smaller until the transcript fits.
LONGEST_VALUES = (1_000_000, 40_000, 8_000, 2_000, 500)
MISSING = {"note": "Earlier turns are missing."}


def transcript(turns: Sequence[Content], room: int) -> str:
    """The turns in at most so many estimated tokens: long values are shortened first, and only then old turns
    are dropped. The first one stays, because it may be an earlier summary."""
    lines: list[str] = []
    for longest in LONGEST_VALUES:
        lines = [_line(each, longest) for turn in turns for each in _entries(turn)]
        if sum(map(_size, lines)) <= room:
            return "\n".join(lines)
    return "\n".join(_newest(lines[:1], lines[1:], room))


def _newest(first: Sequence[str], others: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    room -= sum(map(_size, first))
    for line in reversed(others):
        room -= _size(line)
        if room < 0:
            break
        kept.append(line)
    return [*first, _line(MISSING, LONGEST_VALUES[-1]), *reversed(kept)]


def _size(line: str) -> int:
    return text_tokens(line) + 1


def _entries(turn: Content) -> Iterator[JsonObject]:
    role = "assistant" if turn.role == MODEL else "user"
    for part in turn.parts:
        if not part.thought and (said := _said(part)):
            yield {"role": role, **said}


def _said(part: Part) -> JsonObject:
    data = part.data
    if isinstance(data, str):
        return {"text": data} if data.strip() else {}
    if isinstance(data, FunctionCall):
        return {"calls": data.name, "arguments": data.args or {}}
    if isinstance(data, FunctionResponse):
        files = [medium.mime_type for medium in data.media]
        return {"result_of": data.name, "result": data.response, **({"files": files} if files else {})}
    if isinstance(data, InlineData | FileData):
        return {"file": data.mime_type}
    return {data.field: data.value} if isinstance(data, OtherData) else {}


def _line(entry: JsonObject, longest: int) -> str:
    return _json({name: _shortened(value, longest) for name, value in entry.items()})


def _shortened(value: Any, longest: int) -> Any:
    """Beginning and end of a long value."""
    text = value if isinstance(value, str) else _json(value)
    if len(text) <= longest:
        return value if not isinstance(value, str) else _readable(value)
    half = longest // 2
    return _readable(f"{text[:half]} […{len(text) - longest} characters are missing…] {text[-half:]}")


def _readable(text: str) -> str:
    """Half of a surrogate pair cannot be written as JSON."""
    return text.encode("utf-8", "replace").decode()


def _json(value: Any) -> str:
    return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode()


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)
