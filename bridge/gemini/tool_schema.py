"""JSON Schema of a tool or an answer, as Gemini's JSON-schema fields accept it.

The schema is walked by position, never by key name: a *property* called `$ref`, `title` or `format` is data.
Local references are written out, since Gemini refuses siblings beside `$ref`; a reference to itself becomes a
plain object; what would grow without bound is cut to plain objects too.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson

from bridge.errors import InvalidRequest
from bridge.gemini.types import JsonObject

#: Deeper than any real tool, shallower than what the JSON writer and Python's stack bear.
DEEPEST = 64
#: References inside references multiply. Beyond this many bytes written out for those of one schema, which is
#: more than a model can make use of, a plain object must do.
MOST_WRITTEN_OUT = 128 << 10

# For all schemas of a request together:
#: Places of a schema: properties, items, alternatives. A large tool has a hundred.
MOST_NODES = 100_000
#: Bytes written out for references: as much as a third of the largest context window.
MOST_REFERRED = 1 << 20

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


class PreparedSchema(NamedTuple):
    """A schema as Gemini takes it, and what it took to make it."""

    schema: JsonObject
    nodes: int
    referred: int  #: bytes written out for references
    cut: bool  #: of some references nothing is left but that there is an object


class SchemaLimits(NamedTuple):
    """What a schema may take, where others of the same request have taken some already."""

    nodes: int = MOST_NODES
    referred: int = MOST_REFERRED


def object_schema(schema: JsonObject, param: str, limits: SchemaLimits) -> PreparedSchema:
    """The schema of a tool's arguments: its root is always an object."""
    prepared = plain_schema(schema, param, limits)
    return prepared._replace(schema=_as_object(prepared.schema, param))


def _as_object(schema: JsonObject, param: str) -> JsonObject:
    if schema.get("type") == "object":
        return schema
    if "type" not in schema and ("properties" in schema or not schema):
        return {"type": "object", "properties": {}, **schema}
    if "type" not in schema:  # a bare anyOf of objects: say what it must be, keep what it says
        return {"type": "object", **schema}
    if isinstance(schema["type"], list) and "object" in schema["type"]:
        return {**schema, "type": "object"}
    raise InvalidRequest(f"{param} must describe an object", param=param)


def plain_schema(schema: JsonObject, param: str, limits: SchemaLimits) -> PreparedSchema:
    walk = _Walk(schema, param, limits)
    prepared = walk.node(schema, 0, ())
    whole = prepared if isinstance(prepared, dict) else dict(PLAIN_OBJECT)
    return PreparedSchema(whole, walk.nodes, walk.referred, walk.cut)


class _Walk:
    def __init__(self, root: JsonObject, param: str, limits: SchemaLimits) -> None:
        self.nodes = 0
        self.referred = 0
        self.cut = False
        self._root = root
        self._param = param
        self._limits = limits
        self._sizes: dict[int, int] = {}  #: of what references name, whichever way they spell it

    def node(self, schema: Any, depth: int, inside: tuple[str, ...]) -> Any:
        """`inside` holds the references being written out around this node."""
        if not isinstance(schema, dict):
            return schema  # true, false, or nonsense that Gemini will name better than we can
        if depth > DEEPEST:
            raise InvalidRequest(f"{self._param} is nested deeper than {DEEPEST} levels", param=self._param)
        self.nodes += 1
        if self.nodes > self._limits.nodes:
            raise self._too_much(f"{MOST_NODES} nodes")
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
        size = self._sizes.get(id(target))  # it is a piece of the root, and lives as long as that
        if size is None:
            size = self._sizes[id(target)] = _written_size(target)
        if self.referred + size > MOST_WRITTEN_OUT:
            self.cut = True
            return False
        self.referred += size
        if self.referred > self._limits.referred:
            raise self._too_much(f"{MOST_REFERRED} bytes written out for references")
        return True

    def _too_much(self, limit: str) -> InvalidRequest:
        problem = f"with this one the schemas of the request have more than {limit}"
        return InvalidRequest(f"{self._param}: {problem}", param=self._param)


def _written_size(target: JsonObject) -> int:
    try:
        return len(orjson.dumps(target))
    except orjson.JSONEncodeError:  # deeper than the writer goes, so deeper than we do
        return MOST_WRITTEN_OUT + 1


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
