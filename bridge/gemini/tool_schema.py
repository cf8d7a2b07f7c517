"""Converts the JSON Schema of a tool or an answer to the subset that Gemini's JSON-schema fields accept.

The walk follows the position in the schema, never the key name: a *property* called `$ref`, `title` or
`format` is data. Local references are expanded, since Gemini rejects keywords beside `$ref`. A recursive
reference becomes a plain object, and so does a reference whose expansion would be too large.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson

from bridge.errors import InvalidRequest
from bridge.gemini.types import JsonObject

#: Deeper than any real tool, and less than the limits of orjson and of Python's stack.
MAX_DEPTH = 64
#: Nested references multiply. Above this many expanded bytes in one schema, which is more than a model can
#: use, further references become plain objects.
MAX_EXPANDED_BYTES = 128 << 10

# Limits for all schemas of a request together:
#: Nodes of a schema: properties, items, alternatives. A large tool has a hundred.
MAX_NODES = 100_000
#: Bytes of expanded references: about a third of the largest context window.
MAX_EXPANDED_BYTES_OF_REQUEST = 1 << 20

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
    """A schema that Gemini accepts, and how much of the limits it used."""

    schema: JsonObject
    nodes: int
    expanded_bytes: int  #: bytes of expanded references
    cut: bool  #: some references became plain objects


class SchemaLimits(NamedTuple):
    """What the request's other schemas left of the limits."""

    nodes: int = MAX_NODES
    expanded_bytes: int = MAX_EXPANDED_BYTES_OF_REQUEST


def prepare_object_schema(schema: JsonObject, param: str, limits: SchemaLimits) -> PreparedSchema:
    """The schema of a tool's arguments: its root is always an object."""
    prepared = prepare_schema(schema, param, limits)
    return prepared._replace(schema=_require_object(prepared.schema, param))


def _require_object(schema: JsonObject, param: str) -> JsonObject:
    if schema.get("type") == "object":
        return schema
    if "type" not in schema and ("properties" in schema or not schema):
        return {"type": "object", "properties": {}, **schema}
    if "type" not in schema:  # for example a bare anyOf of objects
        return {"type": "object", **schema}
    if isinstance(schema["type"], list) and "object" in schema["type"]:
        return {**schema, "type": "object"}
    raise InvalidRequest(f"{param} must describe an object", param=param)


def prepare_schema(schema: JsonObject, param: str, limits: SchemaLimits) -> PreparedSchema:
    walk = _SchemaWalker(schema, param, limits)
    prepared = walk.node(schema, 0, ())
    whole = prepared if isinstance(prepared, dict) else dict(PLAIN_OBJECT)
    return PreparedSchema(whole, walk.nodes, walk.expanded_bytes, walk.cut)


class _SchemaWalker:
    def __init__(self, root: JsonObject, param: str, limits: SchemaLimits) -> None:
        self.nodes = 0
        self.expanded_bytes = 0
        self.cut = False
        self._root = root
        self._param = param
        self._limits = limits
        self._sizes: dict[int, int] = {}  #: encoded sizes of reference targets, by their id()

    def node(self, schema: Any, depth: int, expanding: tuple[str, ...]) -> Any:
        """The converted schema node. `expanding`: the references whose expansion contains this node."""
        if not isinstance(schema, dict):
            return schema  # true, false, or an invalid value for which Gemini has a better message
        if depth > MAX_DEPTH:
            raise InvalidRequest(f"{self._param} is nested deeper than {MAX_DEPTH} levels", param=self._param)
        self.nodes += 1
        if self.nodes > self._limits.nodes:
            raise self._limit_exceeded(f"{MAX_NODES} nodes")
        if isinstance(schema.get("$ref"), str):
            return self._expand_reference(schema, depth, expanding)
        return {
            key: self._keyword(key, value, depth + 1, expanding)
            for key, value in schema.items()
            if key not in _DROPPED and not key.startswith("x-")
        }

    def _keyword(self, key: str, value: Any, depth: int, expanding: tuple[str, ...]) -> Any:
        if key in _SCHEMA_MAPS and isinstance(value, dict):
            return {name: self.node(child, depth, expanding) for name, child in value.items()}
        if isinstance(value, list) and (key in _SCHEMA_LISTS or key == "items"):
            return [self.node(child, depth, expanding) for child in value]
        if key in _SCHEMAS:
            return self.node(value, depth, expanding)
        return value

    def _expand_reference(self, schema: JsonObject, depth: int, expanding: tuple[str, ...]) -> Any:
        reference = schema["$ref"]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = None if reference in expanding else _resolve_pointer(self._root, reference)
        if not isinstance(target, dict) or not self._may_expand(target):
            target = PLAIN_OBJECT
        return self.node(_merge_siblings(target, beside), depth + 1, (*expanding, reference))

    def _may_expand(self, target: JsonObject) -> bool:
        size = self._sizes.get(id(target))  # part of the root, so the id stays valid
        if size is None:
            size = self._sizes[id(target)] = _encoded_size(target)
        if self.expanded_bytes + size > MAX_EXPANDED_BYTES:
            self.cut = True
            return False
        self.expanded_bytes += size
        if self.expanded_bytes > self._limits.expanded_bytes:
            raise self._limit_exceeded(f"{MAX_EXPANDED_BYTES_OF_REQUEST} bytes after references are expanded")
        return True

    def _limit_exceeded(self, limit: str) -> InvalidRequest:
        problem = f"with this schema, the schemas of the request exceed {limit}"
        return InvalidRequest(f"{self._param}: {problem}", param=self._param)


def _encoded_size(target: JsonObject) -> int:
    try:
        return len(orjson.dumps(target))
    except orjson.JSONEncodeError:  # deeper than orjson can write, so deeper than MAX_DEPTH
        return MAX_EXPANDED_BYTES + 1


def _merge_siblings(target: JsonObject, beside: JsonObject) -> JsonObject:
    """The target of a reference, extended by the keywords beside the reference."""
    combined = {**target, **beside}
    for key in ("properties", "required"):
        named, added = target.get(key), beside.get(key)
        if isinstance(named, dict) and isinstance(added, dict):
            combined[key] = {**named, **added}
        elif isinstance(named, list) and isinstance(added, list):
            combined[key] = list(dict.fromkeys(name for name in (*named, *added) if isinstance(name, str)))
    return combined


def _resolve_pointer(root: JsonObject, reference: str) -> Any:
    """The target of a JSON pointer within this document, or None."""
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
