"""The tools that an answer may call, and the types of their parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from bridge.gemini.json_text import can_be_serialised, count_brackets
from bridge.gemini.types import EMPTY, FunctionDeclaration, GenerateRequest, JsonObject

#: For each tool, other spellings of its parameters and the parameters that they mean.
ParameterMap = Mapping[str, Mapping[str, str]]

#: Every number of this form fits into 64 bits, so that it can be serialised.
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NOTHING = ("null", "none")
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class KnownTool:
    name: str
    properties: JsonObject  #: the schema of each parameter
    spellings: Mapping[str, str]

    def own_name(self, parameter: str) -> str:
        """The tool's own name for a parameter that the model wrote."""
        own = self.spellings.get(parameter, parameter)
        return own if parameter not in self.properties and own in self.properties else parameter

    def accepts(self, parameter: str) -> bool:
        """Whether the tool has the parameter. A tool that declares no parameters accepts any."""
        return not self.properties or self.own_name(parameter) in self.properties

    def own_arguments(self, arguments: JsonObject) -> dict[str, Any]:
        """The arguments under the tool's own names. An argument never replaces another."""
        renamed: dict[str, Any] = {}
        for name, value in arguments.items():
            own = self.own_name(name)
            renamed[name if own in arguments or own in renamed else own] = value
        return renamed

    def typed(self, parameter: str, text: str) -> Any:
        """The value of an argument that the model wrote as plain text."""
        schema = self.properties.get(self.own_name(parameter))
        return typed_value(text, schema if isinstance(schema, Mapping) else EMPTY)


def known_tools(request: GenerateRequest, parameter_map: ParameterMap) -> dict[str, KnownTool]:
    """The tools that the answer may call, by name; none if the client forbids calls."""
    calling = request.tool_config.get("functionCallingConfig") or {}
    if calling.get("mode") == "NONE":
        return {}
    allowed = calling.get("allowedFunctionNames")
    return {
        function.name: KnownTool(
            function.name,
            parameters_of(function).get("properties") or {},
            parameter_map.get(function.name, {}),
        )
        for function in declared_functions(request)
        if not allowed or function.name in allowed
    }


def declared_functions(request: GenerateRequest) -> Iterator[FunctionDeclaration]:
    return (function for tool in request.tools for function in tool.functions)


def parameters_of(function: FunctionDeclaration) -> JsonObject:
    """The schema of the parameters. Clients of Gemini's own API may use Gemini's schema format."""
    return function.schema or function.extra.get("parameters") or EMPTY


def typed_value(text: str, schema: JsonObject) -> Any:
    """The text as a value of a type that the schema allows; the text itself if it fits none of them."""
    types = set(_types(schema))
    word = text.strip().lower()
    if "null" in types and word in _NOTHING:
        return None
    if "boolean" in types and word in _TRUTHS:
        return _TRUTHS[word]
    if types & {"integer", "number"} and _INTEGER.fullmatch(word):
        return int(word)
    if "number" in types and (number := _number(word)) is not None:
        return number
    if types & {"object", "array"}:
        return _structure(text)
    return text


def _types(schema: JsonObject) -> Iterator[str]:
    """Types of this schema and of its alternatives, in lower case, as Gemini's own format uses capitals."""
    named = schema.get("type")
    for each in (named,) if isinstance(named, str) else named or ():
        yield str(each).lower()
    if schema.get("nullable"):
        yield "null"
    for word in ("anyOf", "oneOf"):
        for each in schema.get(word) or ():
            yield from _types(each) if isinstance(each, Mapping) else ()


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _structure(text: str) -> Any:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    whole = isinstance(value, dict | list) and can_be_serialised(value, count_brackets(text))
    return value if whole else text
