"""Makes a value that satisfies a JSON schema or an OpenAPI schema, which Gemini accepts too.

Schemas are untrusted: depth, number of nodes, lengths and patterns have limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import ceil, floor, isfinite
from typing import Any

from bridge.gemini.types import JsonObject
from bridge.upstream.demo.argument_hints import COMMAND, ArgumentHints, is_command

DEEP = 6  #: from this depth on, only required properties
DEEPEST = 24
MOST_NODES = 2_000
LONGEST_PADDING = 10_000
MOST_ITEMS = 100
LARGEST_NUMBER = 2**53
SMALLEST_STEP = 1e-6
#: An untrusted pattern is matched with short words only: backtracking grows with the length.
LONGEST_MATCHED = 16

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "demo@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
}
#: Candidates for a string with a pattern.
_WORDS = (
    *("demo", "Demo", "DEMO", "a", "A", "1", "42", "ab", "AB", "abc", "ABC", "12345", "123456789"),
    *(
        "2026-01-31",
        "12:00",
        "demo-1",
        "demo_1",
        "demo.txt",
        "/demo",
        "v1.0.0",
        "1.0.0",
        "#112233",
        "ABC-123",
    ),
    *("+15550100", "demo@example.com", "http://a.example"),
)


class Sampler:
    def __init__(self, root: JsonObject, hints: ArgumentHints, *, writes: bool = False) -> None:
        self._root = root
        self._hints = hints
        self._writes = writes
        self._nodes = 0

    def sample(self) -> Any:
        return self._value(self._root, "", 0)

    def _value(self, schema: Any, name: str, depth: int) -> Any:
        self._nodes += 1
        if depth > DEEPEST or self._nodes > MOST_NODES:
            return None
        schema = self._resolved(schema, depth)
        if "const" in schema:
            return schema["const"]
        if schema.get("default") is not None:
            return schema["default"]
        if choices := _list(schema.get("enum")):
            return choices[0]
        if branches := _list(schema.get("anyOf")) or _list(schema.get("oneOf")):
            return self._branch(schema, branches, name, depth)
        return self._of_type(schema, name, depth)

    def _resolved(self, schema: Any, depth: int) -> JsonObject:
        """The schema with its reference resolved and its `allOf` merged."""
        self._nodes += 1
        if not isinstance(schema, dict) or depth > DEEPEST or self._nodes > MOST_NODES:
            return {}
        resolved: JsonObject = schema
        reference = schema.get("$ref") or schema.get("ref")
        if isinstance(reference, str):
            beside = {key: schema[key] for key in schema if key not in ("$ref", "ref")}
            resolved = {**self._resolved(_referenced(self._root, reference), depth + 1), **beside}
        for part in _list(resolved.get("allOf")):
            resolved = _joined(resolved, self._resolved(part, depth + 1))
        return resolved

    def _branch(self, schema: JsonObject, branches: list[Any], name: str, depth: int) -> Any:
        options = [self._resolved(option, depth) for option in branches]
        nulls = [option for option in options if _type(option) == "null"]
        others = [option for option in options if _type(option) != "null"]
        chosen = next(iter((nulls or others) if depth >= DEEP else (others or nulls)), {})
        shared = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "allOf")}
        return self._value(_joined(shared, chosen), name, depth + 1)

    def _of_type(self, schema: JsonObject, name: str, depth: int) -> Any:
        match _type(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, name, depth)
            case "integer" | "number" as kind:
                return _bounded(self._hints.number(), schema, whole=kind == "integer")
            case "boolean":
                return False
            case "null":
                return None
        return _matching_text(self._hints.text(name, writes=self._writes), schema)

    def _object(self, schema: JsonObject, depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        names = [name for name in _list(schema.get("required")) if isinstance(name, str)]
        if not names and depth < DEEP:
            names = list(properties)
        return {name: self._value(properties.get(name), name, depth + 1) for name in names}

    def _array(self, schema: JsonObject, name: str, depth: int) -> list[Any]:
        items, kinds = schema.get("items"), list(_list(schema.get("prefixItems")))
        if is_command(name) and isinstance(items, dict) and _type(items) == "string":
            return list(COMMAND)
        wanted = max(_size(schema, "minItems", 0), len(kinds) or (0 if depth >= DEEP else 1))
        wanted = min(wanted, _size(schema, "maxItems", wanted), MOST_ITEMS)
        kinds += [items] * (wanted - len(kinds))
        return [self._value(kind, name, depth + 1) for kind in kinds[:wanted]]


def _referenced(root: JsonObject, reference: str) -> JsonObject:
    found: Any = root
    for step in filter(None, reference.removeprefix("#").split("/")):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found if isinstance(found, dict) else {}


def _joined(one: JsonObject, other: JsonObject) -> JsonObject:
    joined = {**one, **other}
    if isinstance(one.get("properties"), dict) and isinstance(other.get("properties"), dict):
        joined["properties"] = {**one["properties"], **other["properties"]}
    if required := _list(one.get("required")) + _list(other.get("required")):
        joined["required"] = [name for place, name in enumerate(required) if name not in required[:place]]
    return joined


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _type(schema: JsonObject) -> str:
    named = schema.get("type")
    names = [str(name).lower() for name in (named if isinstance(named, list) else [named] if named else ())]
    if names:
        return next((name for name in names if name != "null"), "null")
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _number(schema: JsonObject, key: str) -> float | None:
    value = schema.get(key)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return value if usable else None


def _size(schema: JsonObject, key: str, usual: int) -> int:
    value = _number(schema, key)
    return usual if value is None else max(0, int(value))


def _bounded(hint: float | None, schema: JsonObject, *, whole: bool) -> float:
    step = max(_number(schema, "multipleOf") or 0, 1 if whole else 0)
    low, high = _number(schema, "minimum"), _number(schema, "maximum")
    above, below = _number(schema, "exclusiveMinimum"), _number(schema, "exclusiveMaximum")
    nudge = step or 0.5 * ((below - above) if above is not None and below is not None else 1)
    lows = [bound for bound in (low, None if above is None else above + nudge) if bound is not None]
    highs = [bound for bound in (high, None if below is None else below - nudge) if bound is not None]
    value = max([min([1 if hint is None else hint, *highs]), *lows])
    value = max(min(value, LARGEST_NUMBER), -LARGEST_NUMBER)
    if step > SMALLEST_STEP:
        steps = ceil(value / step)
        value = (steps if not highs or steps * step <= min(highs) else floor(value / step)) * step
    return int(value) if whole or value == int(value) else value


def _matching_text(text: str, schema: JsonObject) -> str:
    usual = _FORMATS.get(str(schema.get("format")), text)
    found = next((word for word in (usual, text, *_WORDS) if _is_valid_text(word, schema)), None)
    return found if found is not None else _padded(usual, schema)


def _is_valid_text(text: str, schema: JsonObject) -> bool:
    longest = _number(schema, "maxLength")
    if len(text) < _size(schema, "minLength", 0) or (longest is not None and len(text) > longest):
        return False
    return _matches(text, schema.get("pattern"))


def _matches(text: str, pattern: Any) -> bool:
    if not isinstance(pattern, str):
        return True
    try:
        return len(text) <= LONGEST_MATCHED and re.search(pattern, text) is not None
    except (re.error, OverflowError, RecursionError):
        return True  # another dialect of regular expressions, which cannot be checked here


def _padded(text: str, schema: JsonObject) -> str:
    shortest = min(_size(schema, "minLength", 0), LONGEST_PADDING)
    return text.ljust(shortest, "x")[: _size(schema, "maxLength", max(len(text), shortest))]


def property_names(schema: JsonObject | None) -> Iterable[str]:
    properties = (schema or {}).get("properties")
    return properties if isinstance(properties, dict) else ()
