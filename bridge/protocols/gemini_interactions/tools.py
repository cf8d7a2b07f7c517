"""Converts the tools of an Interactions request: the client's functions and Google's built-in tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.types import EMPTY, FunctionDeclaration, JsonObject, Tool
from bridge.protocols.json_reading import (
    each_object,
    invalid_field,
    lookup_by,
    optional,
    quoted,
    required,
    required_name,
)
from bridge.protocols.tool_choice import MUST_CALL, tool_config

CHOICE = "generation_config.tool_choice"
_MODES = {"auto": "AUTO", "any": MUST_CALL, "none": "NONE", "validated": "VALIDATED"}
_SEARCHES = {"web_search": "webSearch", "image_search": "imageSearch"}

ValueConverter = Callable[[Any, str], Any]  #: converts a field's value, or raises with its path
ToolReader = Callable[[JsonObject, str], FunctionDeclaration | Tool]


def declared_tools(tools: list[Any], schemas: RequestSchemas) -> tuple[Tool, ...]:
    schemas.count_tools(len(tools), "tools")
    read = [
        (path, lookup_by(tool, "type", _READERS, path)(tool, path))
        for path, tool in each_object(tools, "tools")
    ]
    functions = [
        _with_schema(each, path, schemas) for path, each in read if isinstance(each, FunctionDeclaration)
    ]
    for name, times in Counter(function.name for function in functions).items():
        if times > 1:
            raise invalid_field(f"{quoted(name)} is declared twice", "tools")
    declared = (Tool(tuple(functions)),) if functions else ()
    return (*declared, *(each for _, each in read if isinstance(each, Tool)))


def _function(tool: JsonObject, path: str) -> FunctionDeclaration:
    return FunctionDeclaration(
        required_name(tool, path),
        optional(tool, "description", str, path),
        optional(tool, "parameters", dict, path) or None,
    )


def _with_schema(function: FunctionDeclaration, path: str, schemas: RequestSchemas) -> FunctionDeclaration:
    if function.schema is None:
        return function
    schema = schemas.tool_schema(function.name, function.schema, f"{path}.parameters")
    return replace(function, schema=schema)


# --- tools that Google runs --------------------------------------------------------------------------


def _unchanged(value: Any, _path: str) -> Any:
    return value


def _searches(value: Any, path: str) -> dict[str, Any]:
    kinds = value if isinstance(value, list) else [value]
    for kind in kinds:
        if not isinstance(kind, str) or kind not in _SEARCHES:
            raise invalid_field(f"must hold {' or '.join(_SEARCHES)}, not {quoted(kind)}", path)
    return {_SEARCHES[kind]: {} for kind in kinds}


def _environment(value: Any, _path: str) -> str:
    return f"ENVIRONMENT_{value}".upper()


def _policies(value: Any, path: str) -> list[str]:
    if not isinstance(value, list):
        raise invalid_field("must be an array", path)
    return [str(each).upper() for each in value]


def _builtin(name: str, **fields: tuple[str, ValueConverter]) -> ToolReader:
    def read(tool: JsonObject, path: str) -> Tool:
        given = {key: value for key, value in tool.items() if key != "type" and value is not None}
        for key in given:
            if key not in fields:
                raise invalid_field("the bridge does not know this field", f"{path}.{key}")
        options = {}
        for key, value in given.items():
            ours, converted = fields[key]
            options[ours] = converted(value, f"{path}.{key}")
        return Tool(extra={name: options})

    return read


def _unsupported(why: str) -> ToolReader:
    def read(_tool: JsonObject, path: str) -> Tool:
        raise invalid_field(why, f"{path}.type")

    return read


def _maps(tool: JsonObject, path: str) -> FunctionDeclaration | Tool:
    """Google Maps without the user's location, which is part of the tool configuration in Gemini's
    request."""
    location = ("latitude", "longitude")
    return _MAPS({key: value for key, value in tool.items() if key not in location}, path)


_MAPS = _builtin("googleMaps", enable_widget=("enableWidget", _unchanged))

_READERS: Mapping[str, ToolReader] = {
    "function": _function,
    "google_search": _builtin("googleSearch", search_types=("searchTypes", _searches)),
    "url_context": _builtin("urlContext"),
    "code_execution": _builtin("codeExecution"),
    "google_maps": _maps,
    "file_search": _builtin(
        "fileSearch",
        file_search_store_names=("fileSearchStoreNames", _unchanged),
        top_k=("topK", _unchanged),
        metadata_filter=("metadataFilter", _unchanged),
    ),
    "computer_use": _builtin(
        "computerUse",
        environment=("environment", _environment),
        excluded_predefined_functions=("excludedPredefinedFunctions", _unchanged),
        enable_prompt_injection_detection=("enablePromptInjectionDetection", _unchanged),
        disabled_safety_policies=("disabledSafetyPolicies", _policies),
    ),
    "mcp_server": _unsupported(
        "the bridge calls no MCP server; let the client call it, and declare its tools"
    ),
    "retrieval": _unsupported("the bridge does not support this tool"),
}


# --- tool choice -------------------------------------------------------------------------------------


def chosen_tools(body: JsonObject, choice: Any, declared: Sequence[Tool]) -> JsonObject:
    config = EMPTY if choice is None else tool_config(*_choice(choice), declared, CHOICE)
    location = _location(body.get("tools") or [])
    return {**config, "retrievalConfig": {"latLng": location}} if location else config


def _choice(choice: Any) -> tuple[str, list[str]]:
    if isinstance(choice, dict) and isinstance(choice.get("allowed_tools"), dict):
        allowed, where = choice["allowed_tools"], f"{CHOICE}.allowed_tools"
        names = required(allowed, "tools", list, where)
        if not all(isinstance(name, str) for name in names):
            raise invalid_field("must be an array of strings", f"{where}.tools")
        mode = _mode(optional(allowed, "mode", str, where) or "auto", f"{where}.mode")
        # Gemini accepts names only with the modes ANY and VALIDATED.
        return ("VALIDATED" if mode == "AUTO" else mode), ([] if mode == "NONE" else names)
    return _mode(choice, CHOICE), []


def _mode(mode: Any, path: str) -> str:
    if not isinstance(mode, str) or mode not in _MODES:
        raise invalid_field(f"must be one of {', '.join(_MODES)}, not {quoted(mode)}", path)
    return _MODES[mode]


def _location(tools: list[JsonObject]) -> dict[str, Any]:
    maps = next((tool for tool in tools if tool.get("type") == "google_maps"), {})
    return {key: maps[key] for key in ("latitude", "longitude") if maps.get(key) is not None}
