"""Reading a client's nested JSON with errors that name the path.

Schemas check a request's envelope; converters walk what is inside it with these. None knows any protocol.
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

#: Where arguments go that are no JSON object, so that the turn survives them.
UNPARSED = "unparsed_arguments"

MAX_STOP_SEQUENCES = 5
LONGEST_QUOTED = 64
#: Of tools: a namespace's name stands before that of each of its tools.
LONGEST_NAME = 512


def invalid_field(problem: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{param}: {problem}", param=param)


@contextmanager
def reject_deep_nesting() -> Iterator[None]:
    """Contents may hold contents. Those who read them call themselves, a few hundred levels deep at the
    most, which is far more than any client means and less than JSON allows."""
    try:
        yield
    except RecursionError:
        raise InvalidRequest("The request is nested too deeply") from None


def optional(source: JsonObject, key: str, kind: type[T], path: str) -> T | None:
    """The value if there is one and it is not null."""
    value = source.get(key)
    if value is None or type(value) is kind:
        return value
    param = f"{path}.{key}" if path else key
    raise invalid_field(f"must be {_TYPE_NAMES[kind]}, not {_describe(value)}", param)


def required(source: JsonObject, key: str, kind: type[T], path: str) -> T:
    value: T | None = source.get(key)
    if type(value) is kind:
        return value
    optional(source, key, kind, path)  # says what is wrong with another value
    raise invalid_field("is required", f"{path}.{key}" if path else key)


def required_name(source: JsonObject, path: str) -> str:
    name = required(source, "name", str, path)
    if not name:
        raise invalid_field("must not be empty", f"{path}.name")
    if len(name) > LONGEST_NAME:
        raise invalid_field(f"must be at most {LONGEST_NAME} characters", f"{path}.name")
    return name


def lookup_by(source: JsonObject, key: str, choices: Mapping[str, T], path: str) -> T:
    """What one of the source's fields, its type or role, stands for."""
    kind = required(source, key, str, path)
    if kind not in choices:
        raise invalid_field(f"must be one of {', '.join(choices)}, not {quoted(kind)}", f"{path}.{key}")
    return choices[kind]


def each_object(items: list[Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each item with its own path."""
    for index, item in enumerate(items):
        if type(item) is not dict:
            raise invalid_field(f"must be an object, not {_describe(item)}", f"{path}[{index}]")
        yield f"{path}[{index}]", item


def arguments_object(arguments: str) -> dict[str, Any]:
    """A call's arguments. What is not a JSON object is kept under one key rather than lost."""
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
    """A value as a message may quote it: short, whatever the client sent."""
    if not isinstance(value, str):
        return _describe(value)
    return repr(value if len(value) <= LONGEST_QUOTED else value[:LONGEST_QUOTED] + "…")


def _describe(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    return "a number" if isinstance(value, int | float) else _TYPE_NAMES.get(type(value), "null")
