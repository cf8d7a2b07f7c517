"""What of a JSON object a protobuf message has no place for.

The package reads JSON into messages as they were when it was last published, and drops all else. The message
descriptors say exactly what that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bridge.gemini.types import JsonObject

#: Numbers in free-form objects are floats, which hold whole numbers up to here.
LARGEST_WHOLE = 2**53
FREE_FORM = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")

Descriptor = Any  #: of google.protobuf, which need not be installed


def lost_fields(value: JsonObject, message: Descriptor, path: str = "") -> Iterator[str]:
    """The paths of what would be dropped or changed."""
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
    """Whole numbers that no float can hold."""
    if isinstance(item, Mapping):
        for key, each in item.items():
            yield from _rounded(each, f"{at}.{key}")
    elif isinstance(item, list):
        for place, each in enumerate(item):
            yield from _rounded(each, f"{at}[{place}]")
    elif isinstance(item, int) and abs(item) > LARGEST_WHOLE:
        yield at


def with_whole_numbers(item: Any) -> Any:
    """A free-form object as it was before its numbers became floats. Strict clients want `3` for a whole
    number and take it for any other, while `3.0` will not do."""
    if isinstance(item, dict):
        return {key: with_whole_numbers(each) for key, each in item.items()}
    if isinstance(item, list):
        return [with_whole_numbers(each) for each in item]
    return int(item) if isinstance(item, float) and item.is_integer() else item
