"""Digests of the beginnings of a conversation, by which its summaries are found again.

Digest `i` covers the owner, the instruction, the tools and the turns before `i`. It is made from the digest
before it, so a conversation that another one continues, or forks from, has the same digests up to that place.
What clients drop or rewrite when they send a turn again does not count: thoughts, signatures, ids of calls,
and where a text is cut into parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import orjson

from bridge.gemini.types import (
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    OtherData,
    PartData,
)


def turn_digests(
    request: GenerateRequest, turns: Sequence[Content], *scope: str | int | None
) -> tuple[bytes, ...]:
    """One digest more than turns: the first covers no turn. `scope`: what else makes summaries differ."""
    digest = _digest(b"", [scope, _parts(request.system), sorted(map(_json, _tools(request)))])
    digests = [digest]
    for turn in turns:
        digest = _digest(digest, [turn.role, _parts(turn)])
        digests.append(digest)
    return tuple(digests)


def _digest(before: bytes, value: Any) -> bytes:
    return hashlib.sha256(before + _json(value)).digest()


def _json(value: Any) -> bytes:
    options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(value, default=_plain, option=options)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)


def _tools(request: GenerateRequest) -> Iterator[list[Any]]:
    for tool in request.tools:
        yield [dict(tool.extra)]
        for each in tool.functions:
            yield [each.name, each.description, each.schema]


def _parts(content: Content | None) -> list[Any]:
    """The values of the parts; texts that follow each other are one text."""
    parts = content.parts if content is not None else ()
    values = [value for part in parts if not part.thought and (value := _value(part.data)) is not None]
    found: list[Any] = []
    for are_texts, group in groupby(values, lambda value: isinstance(value, str)):
        following = list(group)
        found += ["".join(following)] if are_texts else following
    return found


def _value(data: PartData) -> Any:
    if isinstance(data, FunctionCall):
        return ["call", data.name, data.args or {}]
    if isinstance(data, FunctionResponse):
        return ["result", data.name, data.response, list(map(_value, data.media))]
    if isinstance(data, InlineData):
        return ["data", data.mime_type, hashlib.sha256(data.data.encode()).hexdigest()]
    if isinstance(data, FileData):
        return ["file", data.uri]
    if isinstance(data, OtherData):
        return ["other", data.field, data.value]
    return _readable(data)


def _readable(text: str | None) -> str | None:
    """Half of a surrogate pair cannot be written as JSON."""
    return None if text is None else text.encode("utf-8", "replace").decode()
