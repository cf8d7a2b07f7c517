"""Reads a client's nested JSON with errors that name the path of the field.

Schemas check the top level of a request; converters read the rest with these functions. No protocol is named
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import orjson

from bridge.errors import InvalidRequest
from bridge.gemini.json_text import can_be_serialised, count_brackets
from bridge.gemini.types import JsonObject

T = TypeVar("T")

_TYPE_NAMES: dict[type, str] = {
    str: "a string",
    dict: "an object",
    list: "an array",
    int: "a whole number",
    bool: "true or false",
}

#: The key for arguments that are not a JSON object, so that the request does not fail.
UNPARSED = "unparsed_arguments"

MAX_STOP_SEQUENCES = 5
LONGEST_QUOTED = 64
#: Of tools. The limit is generous, since the name of a namespace becomes part of the name of each of its
#: tools.
LONGEST_NAME = 512


def invalid_field(problem: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{param}: {problem}", param=param)


@contextmanager
def reject_deep_nesting() -> Iterator[None]:
    """Convert a RecursionError to InvalidRequest. Readers of nested contents are recursive; their limit of a
    few hundred levels is far above real requests, but below what JSON allows."""
    try:
        yield
    except RecursionError:
        raise InvalidRequest("The request is nested too deeply") from None


def optional(source: JsonObject, key: str, kind: type[T], path: str) -> T | None:
    """The value, or None if it is missing or null."""
    value = source.get(key)
    if value is None or type(value) is kind:
        return value
    param = f"{path}.{key}" if path else key
    raise invalid_field(f"must be {_TYPE_NAMES[kind]}, not {_describe(value)}", param)


def required(source: JsonObject, key: str, kind: type[T], path: str) -> T:
    value: T | None = source.get(key)
    if type(value) is kind:
        return value
    optional(source, key, kind, path)  # raises for a value of another type
    raise invalid_field("is required", f"{path}.{key}" if path else key)


def required_name(source: JsonObject, path: str) -> str:
    name = required(source, "name", str, path)
    if not name:
        raise invalid_field("must not be empty", f"{path}.name")
    if len(name) > LONGEST_NAME:
        raise invalid_field(f"must be at most {LONGEST_NAME} characters", f"{path}.name")
    return name


def lookup_by(source: JsonObject, key: str, choices: Mapping[str, T], path: str) -> T:
    """The choice that a field of the source selects, for example its type or role."""
    kind = required(source, key, str, path)
    if kind not in choices:
        raise invalid_field(f"must be one of {', '.join(choices)}, not {quoted(kind)}", f"{path}.{key}")
    return choices[kind]


def each_object(items: list[Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each item with its path."""
    for index, item in enumerate(items):
        if type(item) is not dict:
            raise invalid_field(f"must be an object, not {_describe(item)}", f"{path}[{index}]")
        yield f"{path}[{index}]", item


def arguments_object(arguments: str) -> dict[str, Any]:
    """A call's arguments as an object. Anything but a JSON object is kept under one key."""
    try:
        value = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return {UNPARSED: arguments}
    if not can_be_serialised(value, count_brackets(arguments)):
        return {UNPARSED: arguments}
    return value if isinstance(value, dict) else {UNPARSED: value}


def stop_sequences(stop: Any, param: str) -> list[str]:
    sequences = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(sequences, list) or not all(isinstance(each, str) and each for each in sequences):
        raise invalid_field("must be a string or an array of strings, none of them empty", param)
    if len(sequences) > MAX_STOP_SEQUENCES:
        raise invalid_field(f"Gemini takes at most {MAX_STOP_SEQUENCES} stop sequences", param)
    return sequences


def quoted(value: Any) -> str:
    """A short form of the value for error messages."""
    if not isinstance(value, str):
        return _describe(value)
    return repr(value if len(value) <= LONGEST_QUOTED else value[:LONGEST_QUOTED] + "…")


def _describe(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    return "a number" if isinstance(value, int | float) else _TYPE_NAMES.get(type(value), "null")
