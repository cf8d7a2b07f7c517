"""The level `shape`: structure, sizes, digests, and the words of `vocabulary.py`. It contains no text.

A text becomes its number of characters and, if it is so long that nobody guesses it, a digest. Numbers
that might be part of a text, unknown fields and the arguments of calls are described in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

from bridge.guards.secrets import redact
from bridge.recorder.vocabulary import CHOICES, CHOOSING, FIELDS, MODELS, OPAQUE, TOOL_NAMES

#: Characters from which on a text gets a digest. A shorter text could be found by trying.
SHORTEST_DIGESTED = 32
MAX_DEPTH = 48
#: A larger number may be the number of a telephone or of a card.
LARGEST_NUMBER = 10**9
_NAME = re.compile(r"[A-Za-z0-9_.:/@-]{1,64}")


class Shape:
    def __init__(self, tools: frozenset[str]) -> None:
        """`tools`: the names of the declared tools."""
        self._tools = tools

    def of(self, value: Any, field: str = "", depth: int = 0) -> Any:
        match value:
            case str():
                return value if self._may_show(value, field) else _text(value)
            case bool() | None:
                return value
            case int() | float():
                return value if abs(value) <= LARGEST_NUMBER else "number"
            case Mapping() if depth < MAX_DEPTH and field not in OPAQUE:
                return self._object(value, depth)
            case list() | tuple() if depth < MAX_DEPTH:
                # A list of this name contains turns, an object of this name the arguments of a call.
                inner = "" if field == "input" else field
                return [self.of(each, inner, depth + 1) for each in value]
        return _opaque(value)

    def _object(self, value: Mapping[str, Any], depth: int) -> dict[str, Any]:
        known = {name: self.of(each, name, depth + 1) for name, each in value.items() if name in FIELDS}
        unknown = [_opaque(each) for name, each in value.items() if name not in FIELDS]
        return known | ({"unknown fields": unknown} if unknown else {})

    def _may_show(self, text: str, field: str) -> bool:
        if field in CHOOSING:
            return text in CHOICES
        if field in TOOL_NAMES:
            return text in self._tools
        return field in MODELS and _is_name(text)


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and redact(text) == text


def _text(text: str) -> dict[str, Any]:
    size = {"characters": len(text)}
    return (
        size if len(text) < SHORTEST_DIGESTED else size | {"digest": _digest(text.encode(errors="replace"))}
    )


def _opaque(value: Any) -> dict[str, Any]:
    try:
        encoded = orjson.dumps(value, default=dict)
    except (TypeError, ValueError, RecursionError):
        return {"bytes": None}  # too deep for JSON
    size = {"bytes": len(encoded)}
    return size if len(encoded) < SHORTEST_DIGESTED else size | {"digest": _digest(encoded)}


def _digest(encoded: bytes) -> str:
    return blake2b(encoded, digest_size=6).hexdigest()


def declared_tools(body: Any) -> frozenset[str]:
    """The names of the tools that a request of any protocol declares, as far as they are plain names."""
    tools = body.get("tools") if isinstance(body, Mapping) else None
    return frozenset(name for tool in _objects(tools) for name in _names(tool))


def _names(tool: Mapping[str, Any]) -> list[str]:
    declarations = tool.get("functionDeclarations") or tool.get("function_declarations")
    inner = [*_objects(declarations), *_objects(tool.get("tools")), *_objects([tool.get("function")])]
    named = [each.get("name") for each in (tool, *inner)]
    return [name for name in named if isinstance(name, str) and _is_name(name)]


def _objects(values: Any) -> list[Mapping[str, Any]]:
    found = values if isinstance(values, (list, tuple)) else ()
    return [each for each in found if isinstance(each, Mapping)]
