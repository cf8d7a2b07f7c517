"""Combines the values that several schemas have for one keyword, where a value must satisfy all of them.

Each result accepts what all the schemas accept, and may accept more. Schemas that contradict each other
accept nothing, so any result is right for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bridge.gemini.types import JsonObject


def combine_values(keyword: str, values: Sequence[Any]) -> Any:
    """One value for the keyword. The last one applies if the values cannot be combined."""
    combine = _COMBINE.get(keyword)
    return values[-1] if combine is None or len(values) == 1 else combine(values)


def accept_null(schema: JsonObject) -> JsonObject:
    """The schema that also accepts null, as OpenAPI's `nullable` means."""
    wider = dict(schema)
    if isinstance(wider.get("type"), str | list):
        wider["type"] = _with(_as_list(wider["type"]), "null")
    if isinstance(wider.get("enum"), list):
        wider["enum"] = _with(wider["enum"], None)
    if isinstance(wider.get("anyOf"), list):
        wider["anyOf"] = _with(wider["anyOf"], {"type": "null"})
    return wider


def _with(values: list[Any], added: Any) -> list[Any]:
    return values if added in values else [*values, added]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _common_types(values: Sequence[Any]) -> Any:
    """Every integer is a number."""
    lists = [_as_list(value) for value in values]
    sets = [frozenset(name for name in names if isinstance(name, str)) for names in lists]
    named = dict.fromkeys(name for names in lists for name in names if isinstance(name, str))
    common = [name for name in named if all(name in each or _is_integer_of(name, each) for each in sets)]
    if not common:
        return values[-1]
    return common if len(common) > 1 else common[0]


def _is_integer_of(name: str, types: frozenset[str]) -> bool:
    return name == "integer" and "number" in types


def _common_choices(values: Sequence[Any]) -> Any:
    """Contradicting choices: the shorter list, so that a long one is not compared again and again."""
    lists = [value for value in values if isinstance(value, list)]
    if not lists:
        return values[-1]
    common = lists[0]
    for choices in lists[1:]:
        shared = _shared(common, choices)
        common = shared or min(common, choices, key=len)
    return common


def _shared(first: list[Any], second: list[Any]) -> list[Any]:
    """The values of `first` that `second` also has. Lists and objects are kept without a comparison."""
    plain = {value for value in second if not isinstance(value, list | dict)}
    nested = len(plain) < len(second)
    return [value for value in first if (nested if isinstance(value, list | dict) else value in plain)]


def _all_names(values: Sequence[Any]) -> Any:
    lists = [value for value in values if isinstance(value, list)]
    return list(dict.fromkeys(name for names in lists for name in names if isinstance(name, str)))


def _largest(values: Sequence[Any]) -> Any:
    return max(values) if all(map(_is_number, values)) else values[-1]


def _smallest(values: Sequence[Any]) -> Any:
    return min(values) if all(map(_is_number, values)) else values[-1]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")

_COMBINE: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "type": _common_types,
    "enum": _common_choices,
    "required": _all_names,
    **dict.fromkeys(_LOWER_BOUNDS, _largest),
    **dict.fromkeys(_UPPER_BOUNDS, _smallest),
}
