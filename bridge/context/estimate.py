"""Estimates the tokens of Gemini's values without asking the upstream.

The length of a text and whether it is ASCII are known without reading it, so an estimate takes time for each
part, but not for each character. `learned_scale.py` learns how a model's own counts differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.gemini.types import (
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    OtherData,
    Part,
    Tool,
)

CHARACTERS_PER_TOKEN = 4
#: A token has so many UTF-8 bytes beyond the first of each character.
EXTRA_BYTES_PER_TOKEN = 3
PART = 4  #: tokens of a part beside its text

#: For each kind of media: tokens at least, and bytes of base64 for one more token.
_MEDIA: Mapping[str, tuple[int, int]] = {
    "image": (1100, 0),
    "audio": (32, 700),
    "video": (300, 1100),
    "application": (560, 120),
    "text": (0, 5),
}
_OTHER_MEDIA = (560, 120)
_FILE = 3000  #: tokens of a file that the bridge has not seen


def request_tokens(request: GenerateRequest) -> int:
    return fixed_tokens(request) + sum(map(content_tokens, request.contents))


def fixed_tokens(request: GenerateRequest) -> int:
    """The tokens of the instruction and of the tools."""
    system = content_tokens(request.system) if request.system is not None else 0
    return system + sum(map(_tool_tokens, request.tools))


def content_tokens(content: Content) -> int:
    return sum(map(part_tokens, content.parts))


def part_tokens(part: Part) -> int:
    data = part.data
    if isinstance(data, str):
        return PART + text_tokens(data)
    if isinstance(data, FunctionCall):
        return PART + text_tokens(data.name) + value_tokens(data.args)
    if isinstance(data, FunctionResponse):
        media = sum(map(medium_tokens, data.media))
        return PART + text_tokens(data.name) + value_tokens(data.response) + media
    if isinstance(data, InlineData | FileData):
        return PART + medium_tokens(data)
    return PART + (value_tokens(data.value) if isinstance(data, OtherData) else 0)


def text_tokens(text: str) -> int:
    length = len(text)
    if text.isascii():
        return length // CHARACTERS_PER_TOKEN
    extra = len(text.encode("utf-8", "surrogatepass")) - length
    return length // CHARACTERS_PER_TOKEN + extra // EXTRA_BYTES_PER_TOKEN


def value_tokens(value: Any) -> int:
    """The tokens of a JSON value."""
    if type(value) is str:
        return 1 + text_tokens(value)
    if type(value) is dict or isinstance(value, Mapping):  # asking Mapping takes longer than all the rest
        tokens = len(value)
        for key, each in value.items():
            tokens += text_tokens(key) + value_tokens(each)
        return tokens
    if isinstance(value, list | tuple):
        return len(value) + sum(map(value_tokens, value))
    return 1


def medium_tokens(medium: InlineData | FileData) -> int:
    if isinstance(medium, FileData):
        return _FILE
    least, bytes_per_token = _MEDIA.get(medium.mime_type.partition("/")[0], _OTHER_MEDIA)
    return max(least, len(medium.data) // bytes_per_token if bytes_per_token else 0)


def _tool_tokens(tool: Tool) -> int:
    return sum(
        PART
        + text_tokens(each.name)
        + text_tokens(each.description or "")
        + value_tokens(each.schema or each.extra)
        for each in tool.functions
    )
