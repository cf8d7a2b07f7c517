"""Finds the fields of a JSON object that a protobuf message would drop.

The package converts JSON to messages of its last release and drops other fields. The message descriptors
list the fields that it knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bridge.gemini.types import JsonObject

#: Free-form objects store numbers as floats, which hold whole numbers exactly up to this one.
LARGEST_WHOLE = 2**53
FREE_FORM = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")

Descriptor = Any  #: of google.protobuf, which need not be installed


def lost_fields(value: JsonObject, message: Descriptor, path: str = "") -> Iterator[str]:
    """The paths of the fields that would be dropped or changed."""
    fields = {name: field for field in message.fields for name in (field.name, field.json_name)}
    for name, item in value.items():
        at = f"{path}.{name}" if path else name
        if name not in fields:
            yield at
        else:
            yield from _lost_in(item, fields[name], at)


def _lost_in(item: Any, field: Descriptor, at: str) -> Iterator[str]:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        for key, each in item.items() if isinstance(item, Mapping) else ():
            yield from _lost_in(each, kind.fields_by_name["value"], f"{at}.{key}")
    elif kind is not None and kind.full_name in FREE_FORM:
        yield from _rounded(item, at)
    elif isinstance(item, list):
        for place, each in enumerate(item):
            yield from _lost_in(each, field, f"{at}[{place}]")
    elif kind is not None and isinstance(item, Mapping):
        yield from lost_fields(item, kind, at)
    elif field.enum_type is not None and isinstance(item, str) and item not in field.enum_type.values_by_name:
        yield at


def _rounded(item: Any, at: str) -> Iterator[str]:
    """The paths of whole numbers that a float cannot hold exactly."""
    if isinstance(item, Mapping):
        for key, each in item.items():
            yield from _rounded(each, f"{at}.{key}")
    elif isinstance(item, list):
        for place, each in enumerate(item):
            yield from _rounded(each, f"{at}[{place}]")
    elif isinstance(item, int) and abs(item) > LARGEST_WHOLE:
        yield at


def with_whole_numbers(item: Any) -> Any:
    """A free-form object with whole numbers instead of floats such as `3.0`, which strict clients refuse
    where they expect a whole number."""
    if isinstance(item, dict):
        return {key: with_whole_numbers(each) for key, each in item.items()}
    if isinstance(item, list):
        return [with_whole_numbers(each) for each in item]
    return int(item) if isinstance(item, float) and item.is_integer() else item
