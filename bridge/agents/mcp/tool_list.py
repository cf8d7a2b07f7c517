"""What a server says about its tools, checked. A broken tool does not spoil the others. No IO."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from bridge.agents.mcp.param_headers import Path, marked_properties
from bridge.errors import InvalidRequest
from bridge.gemini.tool_schema import SchemaLimits, prepare_object_schema
from bridge.gemini.types import EMPTY, JsonObject

LONGEST_NAME = 128
LONGEST_DESCRIPTION = 16_384


@dataclass(frozen=True, slots=True)
class McpTool:
    name: str
    description: str = ""
    schema: JsonObject = EMPTY  #: of the arguments, as the server wrote it
    prepared: JsonObject = EMPTY  #: the same as Gemini accepts it
    annotations: JsonObject = EMPTY  #: hints of a server that may lie
    marked: Mapping[Path, str] = field(default_factory=dict)  #: arguments that headers repeat

    @property
    def says_read_only(self) -> bool:
        return self.annotations.get("readOnlyHint") is True


class BrokenTool(NamedTuple):
    name: str  #: as far as it can be shown
    reason: str


@dataclass(frozen=True, slots=True)
class ToolList:
    tools: tuple[McpTool, ...]
    broken: tuple[BrokenTool, ...]
    digest: str  #: of everything that the server says about its tools

    def find(self, name: str) -> McpTool | None:
        return next((tool for tool in self.tools if tool.name == name), None)


def read_tools(listed: Sequence[Any]) -> ToolList:
    tools: list[McpTool] = []
    broken: list[BrokenTool] = []
    names = Counter(_name(each) for each in listed)
    for each in listed:
        try:
            tools.append(_read(each, names))
        except ValueError as error:
            broken.append(BrokenTool(_name(each), str(error)))
    return ToolList(tuple(tools), tuple(dict.fromkeys(broken)), _digest(listed))


def _name(listed: Any) -> str:
    name = listed.get("name") if isinstance(listed, dict) else None
    return name[:LONGEST_NAME] if isinstance(name, str) and name.isprintable() else ""


def _read(listed: Any, names: Mapping[str, int]) -> McpTool:
    """Raises ValueError with the reason why the tool cannot be used."""
    name = _name(listed)
    if not name or len(listed["name"]) > LONGEST_NAME:
        raise ValueError("it has no valid name")
    if names[name] > 1:
        raise ValueError("the server lists more than one tool of this name")
    description, annotations = listed.get("description"), listed.get("annotations")
    schema = listed.get("inputSchema")
    return McpTool(
        name,
        description[:LONGEST_DESCRIPTION] if isinstance(description, str) else "",
        schema,
        _prepared(schema),
        annotations if isinstance(annotations, dict) else EMPTY,
        marked_properties(schema),
    )


def _prepared(schema: Any) -> JsonObject:
    if not isinstance(schema, dict):
        raise ValueError("it has no schema of its arguments")
    try:
        prepared = prepare_object_schema(schema, "its schema", SchemaLimits()).schema
        orjson.dumps(prepared)
    except InvalidRequest as error:
        raise ValueError(error.message) from None
    except (orjson.JSONEncodeError, RecursionError):
        raise ValueError("its schema is nested too deeply") from None
    return prepared


def _digest(listed: Iterable[Any]) -> str:
    """The order of the tools does not count."""
    each = sorted(hashlib.sha256(_canonical(tool)).digest() for tool in listed)
    return hashlib.sha256(b"".join(each)).hexdigest()


def _canonical(listed: Any) -> bytes:
    try:
        return orjson.dumps(listed, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested too deeply; the tool is broken anyway
        return _name(listed).encode()
