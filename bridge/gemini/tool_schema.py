"""Converts the JSON Schema of a tool or an answer to the subset that Gemini's JSON-schema fields accept.

The converted schema accepts every value that the client's schema accepts, and may accept more. The walk
follows the position in the schema, never the key name: a *property* called `$ref`, `title` or `format` is
data. Local references are expanded, since Gemini rejects keywords beside `$ref`, and `allOf` is merged. Where
a reference is recursive or unknown, or its expansion would be too large, any value is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson

from bridge.errors import InvalidRequest
from bridge.gemini.schema_values import accept_null, combine_values
from bridge.gemini.types import JsonObject

#: Deeper than any real tool, and less than the limits of orjson and of Python's stack.
MAX_DEPTH = 64
#: Nested references multiply. Above this many expanded bytes in one schema, which is more than a model can
#: use, further references accept any value.
MAX_EXPANDED_BYTES = 128 << 10

# Limits for all schemas of a request together:
#: Nodes of a schema: properties, items, alternatives. A large tool has a hundred.
MAX_NODES = 100_000
#: Bytes of expanded references: about a third of the largest context window.
MAX_EXPANDED_BYTES_OF_REQUEST = 1 << 20

_SCHEMA_MAPS = frozenset({"properties", "patternProperties"})
_SCHEMAS = frozenset({"items", "additionalProperties"})
#: Keywords whose removal only widens a schema. Gemini does not know those that hold schemas, and a schema
#: below `not`, `if`, `contains` or `unevaluatedProperties` must not be widened.
_DROPPED = frozenset(
    {
        "$schema",
        "$id",
        "$comment",
        "$anchor",
        "$vocabulary",
        "$dynamicAnchor",
        "$dynamicRef",
        "$recursiveAnchor",
        "$recursiveRef",
        "$defs",
        "definitions",
        "allOf",  # merged before
        "additionalItems",  # read together with `items`
        "not",
        "if",
        "then",
        "else",
        "contains",
        "minContains",
        "maxContains",
        "propertyNames",
        "dependencies",
        "dependentSchemas",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
#: The keywords that apply beside a reference up to draft 7.
_ANNOTATIONS = frozenset({"title", "description", "default"})

PLAIN_OBJECT: JsonObject = {"type": "object"}


class PreparedSchema(NamedTuple):
    """A schema that Gemini accepts, and how much of the limits it used."""

    schema: JsonObject
    nodes: int
    expanded_bytes: int  #: bytes of expanded references
    cut: bool  #: some references were not expanded


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
    prepared = walk.node([_Place(schema, 0, ())])
    whole = prepared if isinstance(prepared, dict) else dict(PLAIN_OBJECT)
    return PreparedSchema(whole, walk.nodes, walk.expanded_bytes, walk.cut)


class _Place(NamedTuple):
    """A schema of the client. `expanding`: the references whose expansion contains it."""

    schema: Any
    depth: int
    expanding: tuple[str, ...]

    def below(self, schema: Any) -> _Place:
        return _Place(schema, self.depth + 1, self.expanding)


class _SchemaWalker:
    def __init__(self, root: JsonObject, param: str, limits: SchemaLimits) -> None:
        self.nodes = 0
        self.expanded_bytes = 0
        self.cut = False
        self._root = root
        self._param = param
        self._limits = limits
        self._sizes: dict[int, int] = {}  #: encoded sizes of reference targets, by their id()
        self._bare_references = "json-schema.org/draft-0" in str(root.get("$schema"))

    def node(self, places: Sequence[_Place]) -> Any:
        """One converted schema for several schemas that a value must all satisfy."""
        parts: list[_Place] = []
        for place in places:
            self._collect(place, parts)
        objects = [part for part in parts if isinstance(part.schema, dict)]
        if not objects:  # true, or an invalid value for which Gemini has a better message
            return parts[-1].schema
        if any(part.schema is False for part in parts):
            return False
        return self._merge(objects)

    def _collect(self, place: _Place, parts: list[_Place]) -> None:
        """Append the schemas that the place stands for: `$ref` and `allOf` first, then the place itself."""
        schema = place.schema
        if isinstance(schema, dict):
            self._count(place.depth)
            reference = schema.get("$ref")
            if isinstance(reference, str):
                self._collect(self._target(reference, place), parts)
                schema = self._beside_reference(schema)
            branches = schema.get("allOf")
            for branch in branches if isinstance(branches, list) else ():
                self._collect(place.below(branch), parts)
        parts.append(place._replace(schema=schema))

    def _count(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise InvalidRequest(f"{self._param} is nested deeper than {MAX_DEPTH} levels", param=self._param)
        self.nodes += 1
        if self.nodes > self._limits.nodes:
            raise self._limit_exceeded(f"{MAX_NODES} nodes")

    def _target(self, reference: str, place: _Place) -> _Place:
        target = None if reference in place.expanding else _resolve_pointer(self._root, reference)
        if isinstance(target, dict):
            target = target if self._may_expand(target) else True
        elif not isinstance(target, bool):
            target = True
        return _Place(target, place.depth + 1, (*place.expanding, reference))

    def _beside_reference(self, schema: JsonObject) -> JsonObject:
        kept = _ANNOTATIONS if self._bare_references else schema.keys() - {"$ref"}
        return {key: value for key, value in schema.items() if key in kept}

    def _merge(self, parts: Sequence[_Place]) -> JsonObject:
        grouped: dict[str, list[_Place]] = {}
        for part in parts:
            for keyword, value in _keywords(part.schema):
                grouped.setdefault(keyword, []).append(part.below(value))
        nullable = any(place.schema is True for place in grouped.pop("nullable", ()))
        merged = {keyword: self._combine(keyword, places) for keyword, places in grouped.items()}
        if merged.get("additionalProperties", True) is not True:
            merged.pop("patternProperties", None)  # Gemini would check its properties against the former
        return accept_null(merged) if nullable else merged

    def _combine(self, keyword: str, places: list[_Place]) -> Any:
        if keyword in _SCHEMAS:
            return self.node(places)
        kind = dict if keyword in _SCHEMA_MAPS else list
        valid = [place for place in places if isinstance(place.schema, kind)]
        if valid and keyword in _SCHEMA_MAPS:
            return self._combine_maps(valid)
        if valid and keyword == "anyOf":
            last = valid[-1]
            return [self.node([last._replace(schema=choice)]) for choice in last.schema]
        if valid and keyword == "prefixItems":
            return self._combine_tuples(valid)
        return combine_values(keyword, [place.schema for place in places])

    def _combine_maps(self, places: list[_Place]) -> JsonObject:
        named: dict[str, list[_Place]] = {}
        for place in places:
            for name, child in place.schema.items():
                named.setdefault(name, []).append(place._replace(schema=child))
        return {name: self.node(children) for name, children in named.items()}

    def _combine_tuples(self, places: list[_Place]) -> list[Any]:
        columns = ([place._replace(schema=child) for child in place.schema] for place in places)
        return [self.node([child for child in row if child is not None]) for row in zip_longest(*columns)]

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


def _keywords(schema: JsonObject) -> Iterator[tuple[str, Any]]:
    """The keywords of one schema, written with those that Gemini knows."""
    for key, value in schema.items():
        if key in _DROPPED or key.startswith("x-"):
            continue
        elif key in _REWRITTEN:
            yield from _REWRITTEN[key](schema, value)
        else:
            yield key, value


def _const(_schema: JsonObject, value: Any) -> Iterator[tuple[str, Any]]:
    yield "enum", [value]


def _one_of(schema: JsonObject, value: Any) -> Iterator[tuple[str, Any]]:
    if "anyOf" not in schema:
        yield "anyOf", value


def _items(schema: JsonObject, value: Any) -> Iterator[tuple[str, Any]]:
    """Up to draft 2019-09, a list is a tuple, and `additionalItems` are the items after it."""
    if not isinstance(value, list):
        yield "items", value
    elif "prefixItems" not in schema:
        yield "prefixItems", value
        if "additionalItems" in schema:
            yield "items", schema["additionalItems"]


def _pattern_properties(schema: JsonObject, value: Any) -> Iterator[tuple[str, Any]]:
    if schema.get("additionalProperties", True) is True:
        yield "patternProperties", value


def _additional_properties(schema: JsonObject, value: Any) -> Iterator[tuple[str, Any]]:
    """Gemini does not know patterns, so that their properties are additional ones."""
    patterns = schema.get("patternProperties")
    if value is True or not isinstance(patterns, dict) or not patterns:
        yield "additionalProperties", value
        return
    choices = [*patterns.values(), *([] if value is False else [value])]
    yield "additionalProperties", choices[0] if len(choices) == 1 else {"anyOf": choices}


_REWRITTEN: Mapping[str, Callable[[JsonObject, Any], Iterator[tuple[str, Any]]]] = {
    "const": _const,
    "oneOf": _one_of,
    "items": _items,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}


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
