"""Tools and the choice of a tool, in the form of Chat Completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bridge.errors import InvalidRequest
from bridge.gemini.types import FunctionDeclaration, GenerateRequest, JsonObject
from bridge.upstream.openai.dialects import Dialect

Fields = dict[str, Any]
NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}
#: Keywords of Gemini's own schemas that JSON Schema does not have.
_GEMINI_ONLY = frozenset(("propertyOrdering", "nullable"))


def declared(request: GenerateRequest, server: str) -> list[FunctionDeclaration]:
    """The functions; raises if the client wants a tool that only Google runs."""
    for tool in request.tools:
        for name in tool.extra:
            raise InvalidRequest(f"{server} has no built-in tool {name[:80]!r}; remove it", param="tools")
    return [function for tool in request.tools for function in tool.functions]


def chat_tools(functions: Iterable[FunctionDeclaration]) -> list[Fields]:
    return [{"type": "function", "function": _function(function)} for function in functions]


def _function(function: FunctionDeclaration) -> Fields:
    fields: Fields = {"name": function.name}
    if function.description is not None:
        fields["description"] = function.description
    return {**fields, "parameters": schema_of(function)}


def schema_of(function: FunctionDeclaration) -> JsonObject:
    schema = function.schema or json_schema(function.extra.get("parameters"))
    return schema if isinstance(schema, Mapping) and schema else NO_PARAMETERS


def json_schema(schema: Any) -> Any:
    """JSON Schema for a schema in Gemini's own form, whose types have capital letters."""
    if isinstance(schema, list):
        return [json_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    written = {
        name: value.lower() if name == "type" and isinstance(value, str) else _keyword(name, value)
        for name, value in schema.items()
        if name not in _GEMINI_ONLY
    }
    if schema.get("nullable") is True and isinstance(written.get("type"), str):
        written["type"] = [written["type"], "null"]
    return written


def _keyword(name: str, value: Any) -> Any:
    if name == "properties" and isinstance(value, Mapping):
        return {key: json_schema(each) for key, each in value.items()}
    return json_schema(value) if name in ("items", "anyOf", "prefixItems", "additionalProperties") else value


def chosen_tools(
    functions: list[FunctionDeclaration], config: JsonObject, dialect: Dialect
) -> tuple[list[FunctionDeclaration], str | Fields | None]:
    """The tools to send, and the value of `tool_choice`."""
    calling = config.get("functionCallingConfig")
    calling = calling if isinstance(calling, Mapping) else {}
    mode, allowed = calling.get("mode"), calling.get("allowedFunctionNames")
    if isinstance(allowed, list) and allowed and mode != "NONE":
        functions = [function for function in functions if function.name in allowed]
    if mode == "ANY" and isinstance(allowed, list) and len(functions) == 1 and dialect.named_tool:
        return functions, {"type": "function", "function": {"name": functions[0].name}}
    return functions, {"NONE": "none", "ANY": dialect.any_tool}.get(str(mode))
