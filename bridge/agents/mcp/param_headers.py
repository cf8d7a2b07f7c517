"""Arguments that are repeated in HTTP headers, for the proxies in front of a server.

A schema of 2026-07-28 may mark a property with `x-mcp-header`: a call repeats its value in the header
`Mcp-Param-NAME`, and the server refuses a call whose header and body differ.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bridge.gemini.types import JsonObject

MARK = "x-mcp-header"
PREFIX = "Mcp-Param-"
Path = tuple[str, ...]

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_TYPES = ("string", "integer", "boolean")
#: The keywords whose values are data: a mark in them marks nothing.
_DATA = frozenset(("default", "examples", "const", "enum"))


def header_value(text: str) -> str:
    """The text as a header can carry it: as it is if it is plain ASCII, else as base64 with a mark."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def marked_properties(schema: JsonObject) -> dict[Path, str]:
    """The marked properties and their header names. Raises ValueError for a mark that is not allowed: then
    the tool must not be used, since its server would refuse the calls."""
    found: dict[Path, str] = {}
    names: set[str] = set()
    for path, node in _nodes(schema):
        if MARK not in node:
            continue
        name = node[MARK] if isinstance(node[MARK], str) else ""
        if not path or not _TOKEN.fullmatch(name) or node.get("type") not in _TYPES:
            raise ValueError(f"its schema has a mark {MARK} that is not valid")
        if name.lower() in names:
            raise ValueError(f"its schema marks two properties with one {MARK}")
        names.add(name.lower())
        found[path] = name
    return found


def _nodes(schema: JsonObject) -> Iterator[tuple[Path | None, JsonObject]]:
    """Every subschema, with the path of property names that leads to it; None if something else leads there.
    A stack instead of recursion: the schema is a stranger's, and may be deep."""
    waiting: list[tuple[Path | None, Any]] = [((), schema)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, list):
            waiting += [(None, each) for each in node]
        if not isinstance(node, dict):
            continue
        yield path, node
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, dict):
                waiting += [(None if path is None else (*path, name), each) for name, each in value.items()]
            elif keyword not in _DATA:
                waiting.append((None, value))


def param_headers(marked: Mapping[Path, str], arguments: JsonObject) -> dict[str, str]:
    values = {name: _at(arguments, path) for path, name in marked.items()}
    return {
        f"{PREFIX}{name}": header_value(_written(value))
        for name, value in values.items()
        if isinstance(value, str | int | float)
    }


def _at(arguments: Any, path: Path) -> Any:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, Mapping) else None
    return arguments


def _written(value: str | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
