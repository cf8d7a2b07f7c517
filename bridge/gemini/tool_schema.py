"""JSON Schema of a tool or an answer, as Gemini's JSON-schema fields accept it.

The schema is walked by position, never by key name: a *property* called `$ref`, `title` or `format` is data.
Local references are written out, since Gemini refuses siblings beside `$ref`; a reference to itself becomes a
plain object; what would grow without bound is cut to plain objects too.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import orjson

from bridge.errors import InvalidRequest
from bridge.gemini.types import JsonObject

#: Deeper than any real tool, shallower than what the JSON writer and Python's stack bear.
DEEPEST = 64
#: References inside references multiply. Beyond this many bytes written out for them, a plain object must do.
MOST_REFERRED = 500_000

_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMAS = frozenset(
    {
        "items",
        "additionalItems",
        "additionalProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contains",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
    }
)
_DROPPED = frozenset(
    {"$schema", "$id", "$comment", "$anchor", "$vocabulary", "$dynamicAnchor", "$defs", "definitions"}
)

PLAIN_OBJECT: JsonObject = {"type": "object"}

#: Some agents' tools a few times over; all of them together take a few megabytes.
MOST_REMEMBERED = 512
LARGEST_REMEMBERED = 16_384
_REMEMBERED: dict[bytes, JsonObject] = {}


def object_schema(schema: JsonObject, param: str) -> JsonObject:
    """The schema of a tool's arguments: its root is always an object.

    Agents declare the same tools in every turn, so what was made of a schema is remembered by its bytes.
    """
    try:
        written = orjson.dumps(schema)
    except orjson.JSONEncodeError:  # too deep, which the walk will tell in better words
        return _object_schema(schema, param)
    known = _REMEMBERED.get(written)
    if known is None:
        known = _object_schema(schema, param)
        _remember(written, known)
    return known


def _remember(written: bytes, prepared: JsonObject) -> None:
    if len(written) > LARGEST_REMEMBERED:
        return
    if len(_REMEMBERED) >= MOST_REMEMBERED:
        _REMEMBERED.clear()
    _REMEMBERED[written] = prepared


def _object_schema(schema: JsonObject, param: str) -> JsonObject:
    prepared = plain_schema(schema, param)
    if prepared.get("type") == "object":
        return prepared
    if "type" not in prepared and ("properties" in prepared or not prepared):
        return {"type": "object", "properties": {}, **prepared}
    if "type" not in prepared:  # a bare anyOf of objects: say what it must be, keep what it says
        return {"type": "object", **prepared}
    if isinstance(prepared["type"], list) and "object" in prepared["type"]:
        return {**prepared, "type": "object"}
    raise InvalidRequest(f"{param} must describe an object", param=param)


def plain_schema(schema: JsonObject, param: str) -> dict[str, Any]:
    prepared = _Walk(schema, param).node(schema, 0, ())
    return prepared if isinstance(prepared, dict) else dict(PLAIN_OBJECT)


def json_answer(schema: JsonObject, param: str) -> dict[str, Any]:
    """The part of `generationConfig` that asks for an answer of this schema."""
    return {"responseMimeType": "application/json", "responseJsonSchema": plain_schema(schema, param)}


class _Walk:
    def __init__(self, root: JsonObject, param: str) -> None:
        self._root = root
        self._param = param
        self._referred = 0

    def node(self, schema: Any, depth: int, inside: tuple[str, ...]) -> Any:
        """`inside` holds the references being written out around this node."""
        if not isinstance(schema, dict):
            return schema  # true, false, or nonsense that Gemini will name better than we can
        if depth > DEEPEST:
            raise InvalidRequest(f"{self._param} is nested deeper than {DEEPEST} levels", param=self._param)
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema, depth, inside)
        return {
            key: self._member(key, value, depth + 1, inside)
            for key, value in schema.items()
            if key not in _DROPPED and not key.startswith("x-")
        }

    def _member(self, key: str, value: Any, depth: int, inside: tuple[str, ...]) -> Any:
        if key in _SCHEMA_MAPS and isinstance(value, dict):
            return {name: self.node(child, depth, inside) for name, child in value.items()}
        if isinstance(value, list) and (key in _SCHEMA_LISTS or key == "items"):
            return [self.node(child, depth, inside) for child in value]
        if key in _SCHEMAS:
            return self.node(value, depth, inside)
        return value

    def _reference(self, schema: JsonObject, depth: int, inside: tuple[str, ...]) -> Any:
        reference = schema["$ref"]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = None if reference in inside else _pointed_at(self._root, reference)
        if not isinstance(target, dict) or not self._affords(target):
            target = PLAIN_OBJECT
        return self.node(_combined(target, beside), depth + 1, (*inside, reference))

    def _affords(self, target: JsonObject) -> bool:
        if self._referred > MOST_REFERRED:
            return False
        try:
            self._referred += len(orjson.dumps(target))
        except orjson.JSONEncodeError:  # deeper than the writer goes, so deeper than we do
            return False
        return self._referred <= MOST_REFERRED


def _combined(target: JsonObject, beside: JsonObject) -> JsonObject:
    """What stands beside a reference adds to what it names."""
    combined = {**target, **beside}
    for key in ("properties", "required"):
        named, added = target.get(key), beside.get(key)
        if isinstance(named, dict) and isinstance(added, dict):
            combined[key] = {**named, **added}
        elif isinstance(named, list) and isinstance(added, list):
            combined[key] = list(dict.fromkeys(name for name in (*named, *added) if isinstance(name, str)))
    return combined


def _pointed_at(root: JsonObject, reference: str) -> Any:
    """What a JSON pointer within this document names, or None."""
    if not reference.startswith("#"):
        return None
    found: Any = root
    for step in filter(None, unquote(reference[1:]).split("/")):
        found = _child(found, step.replace("~1", "/").replace("~0", "~"))
    return found


def _child(node: Any, step: str) -> Any:
    if isinstance(node, dict):
        return node.get(step)
    if isinstance(node, list) and len(step) < 5 and step.isdecimal() and int(step) < len(node):
        return node[int(step)]
    return None
