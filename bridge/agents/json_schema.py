"""Checks a value against a JSON Schema, and says in words for a model what does not fit.

It knows the keywords that tools use. Unknown keywords are ignored, so a schema may accept more than its
author meant, but never less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from bridge.gemini.types import JsonObject
from bridge.settings.patterns import Pattern, checked_pattern
from bridge.settings.value import SettingsError

MOST_PROBLEMS = 5
MAX_DEPTH = 64
_LOCAL = "#/"

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": lambda value: _is_number(value),
}


class BrokenSchema(ValueError):
    """The schema itself is wrong. The message names the place."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) != float("inf")


def problems(value: Any, schema: JsonObject) -> list[str]:
    """What does not fit, at most a few sentences; empty if the value fits."""
    return list(islice(_Checker(schema).check(value, schema, "", 0), MOST_PROBLEMS))


def check_schema(schema: Any) -> None:
    """Raises BrokenSchema if `problems` could not use the schema."""
    _check_schema(schema, schema, "schema", 0)


class _Checker:
    def __init__(self, root: JsonObject) -> None:
        self._root = root

    def check(self, value: Any, schema: Any, path: str, depth: int) -> Iterator[str]:
        if schema is True or not isinstance(schema, Mapping):
            if schema is False:
                yield f"{_place(path)} is not allowed"
            return
        if depth > MAX_DEPTH:
            yield f"{_place(path)} is nested too deeply"
            return
        if "$ref" in schema:
            yield from self.check(value, referred(self._root, schema["$ref"]), path, depth + 1)
        wrong = list(_wrong_value(value, schema, path))
        yield from wrong
        if not wrong:
            yield from self._combinations(value, schema, path, depth)
            yield from self._children(value, schema, path, depth)

    def _combinations(self, value: Any, schema: JsonObject, path: str, depth: int) -> Iterator[str]:
        for each in schema.get("allOf", ()):
            yield from self.check(value, each, path, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            choices = schema.get(keyword)
            if choices and not any(self._fits(value, each, path, depth) for each in choices):
                yield f"{_place(path)} fits none of the {len(choices)} schemas of {keyword}"

    def _fits(self, value: Any, schema: Any, path: str, depth: int) -> bool:
        return next(self.check(value, schema, path, depth + 1), None) is None

    def _children(self, value: Any, schema: JsonObject, path: str, depth: int) -> Iterator[str]:
        if isinstance(value, Mapping):
            known = schema.get("properties") or {}
            others = schema.get("additionalProperties", True)
            for name, item in value.items():
                where = f"{path}.{name}" if path else str(name)
                yield from self.check(item, known.get(name, others), where, depth + 1)
        elif isinstance(value, list) and "items" in schema:
            for index, item in enumerate(value):
                yield from self.check(item, schema["items"], f"{path}[{index}]", depth + 1)


def _place(path: str) -> str:
    return path or "the value"


def _wrong_value(value: Any, schema: JsonObject, path: str) -> Iterator[str]:
    """The problems of the value itself, without its children."""
    place, types = _place(path), _listed(schema.get("type"))
    if types and not any(_TYPES[name](value) for name in types):
        yield f"{place} must be {' or '.join(types)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place} must be one of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{place} must be {schema['const']!r}"
    if isinstance(value, Mapping):
        yield from (f"{place} lacks {name!r}" for name in schema.get("required", ()) if name not in value)
    for keyword, (measures, accepts, words) in _BOUNDS.items():
        measured = measures(value) if keyword in schema else None
        if measured is not None and not accepts(measured, schema[keyword]):
            yield f"{place} {words} {schema[keyword]}"
    pattern = schema.get("pattern")
    if pattern and isinstance(value, str) and not Pattern(pattern).found_in(value):
        yield f"{place} must match the pattern {pattern!r}"


def _listed(types: Any) -> Sequence[str]:
    return types if isinstance(types, list) else [types] if types else []


def _number(value: Any) -> float | None:
    return value if _is_number(value) else None


def _characters(value: Any) -> int | None:
    return len(value) if isinstance(value, str) else None


def _items(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None


_Bound = tuple[Callable[[Any], float | None], Callable[[float, float], bool], str]
_BOUNDS: Mapping[str, _Bound] = {
    "minimum": (_number, lambda found, limit: found >= limit, "must be at least"),
    "maximum": (_number, lambda found, limit: found <= limit, "must be at most"),
    "exclusiveMinimum": (_number, lambda found, limit: found > limit, "must be more than"),
    "exclusiveMaximum": (_number, lambda found, limit: found < limit, "must be less than"),
    "minLength": (
        _characters,
        lambda found, limit: found >= limit,
        "must have at least this many characters:",
    ),
    "maxLength": (
        _characters,
        lambda found, limit: found <= limit,
        "must have at most this many characters:",
    ),
    "minItems": (_items, lambda found, limit: found >= limit, "must have at least this many items:"),
    "maxItems": (_items, lambda found, limit: found <= limit, "must have at most this many items:"),
}


# --- the schema itself --------------------------------------------------------------------------------


def referred(root: JsonObject, reference: Any) -> Any:
    """The schema that a local reference names. Raises BrokenSchema."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith(_LOCAL)):
        raise BrokenSchema(f"$ref {str(reference)[:80]!r} is not a reference inside the schema")
    found: Any = root
    for name in filter(None, reference.removeprefix("#").split("/")):
        found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping | bool):
        raise BrokenSchema(f"$ref {reference[:80]!r} names nothing")
    return found


def _check_schema(schema: Any, root: Any, path: str, depth: int) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise BrokenSchema(f"{path} must be an object")
    if depth > MAX_DEPTH:
        raise BrokenSchema(f"{path} is nested too deeply")
    _check_keywords(schema, path)
    if "$ref" in schema:
        referred(root, schema["$ref"])
    for keyword in ("properties", "$defs", "definitions"):
        for name, each in schema.get(keyword, {}).items():
            _check_schema(each, root, f"{path}.{keyword}.{name}", depth + 1)
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            _check_schema(schema[keyword], root, f"{path}.{keyword}", depth + 1)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(schema.get(keyword, ())):
            _check_schema(each, root, f"{path}.{keyword}[{index}]", depth + 1)


def _check_keywords(schema: JsonObject, path: str) -> None:
    for name in _listed(schema.get("type")):
        if not isinstance(name, str) or name not in _TYPES:
            raise BrokenSchema(f"{path}.type: {str(name)[:40]!r} is not a type of JSON")
    for keyword, kind in _KINDS.items():
        if keyword in schema and not isinstance(schema[keyword], kind):
            raise BrokenSchema(f"{path}.{keyword} has the wrong form")
    if "pattern" in schema:
        try:
            checked_pattern(schema["pattern"], f"{path}.pattern")
        except SettingsError as error:
            raise BrokenSchema(str(error)) from None


_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("properties", "$defs", "definitions"), Mapping),
    **dict.fromkeys(("required", "enum", "allOf", "anyOf", "oneOf"), list),
    **dict.fromkeys(_BOUNDS, int | float),
    "pattern": str,
}
