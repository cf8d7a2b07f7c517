"""Sample values for a schema: they satisfy it, even if it is unusual."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from demo_model import said, text, wire
from hypothesis import given
from hypothesis import strategies as st

from bridge.upstream.demo.argument_hints import ArgumentHints
from bridge.upstream.demo.samples import Sampler

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}, "required": ["a"]},
    {"type": "OBJECT", "properties": {"a": {"type": "ARRAY", "items": {"type": "INTEGER"}}}},
    {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 3},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2},
    {"type": "string", "pattern": "^[A-Z]{3}-[0-9]+$"},
    {"type": "string", "minLength": 30, "maxLength": 40},
    {"type": "string", "maxLength": 2},
    {"type": "string", "format": "date-time", "minLength": 5},
    {"type": "integer", "minimum": 11, "multipleOf": 5},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "maximum": -2.5},
    {"type": ["null", "boolean"]},
    {"const": {"fixed": [1]}},
    {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a~1b"}], "$defs": {"a/b": {"type": "boolean"}}},
    {"allOf": [{"required": ["a"]}, {"properties": {"a": {"type": "integer"}}}], "type": "object"},
    {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
                    "leaves": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
                "required": ["name", "next", "leaves"],
            }
        },
    },
]
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def satisfies(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/").replace("~1", "/")
        return satisfies(value, root["$defs"][name], root)
    named = schema.get("type", [])
    names = named if isinstance(named, list) else [named]
    size = len(value) if isinstance(value, str | list) else 0
    return all(
        (
            not names or any(isinstance(value, TYPES[name.lower()]) for name in names),
            "const" not in schema or value == schema["const"],
            "enum" not in schema or value in schema["enum"],
            "anyOf" not in schema or any(satisfies(value, option, root) for option in schema["anyOf"]),
            all(satisfies(value, each, root) for each in schema.get("allOf", ())),
            not isinstance(value, dict) or _members_satisfy(value, schema, root),
            not isinstance(value, list)
            or all(satisfies(each, schema.get("items", {}), root) for each in value),
            schema.get("minLength", 0) <= size <= schema.get("maxLength", size),
            schema.get("minItems", 0) <= size,
            not isinstance(value, str) or re.search(schema.get("pattern", ""), value),
            not isinstance(value, int | float) or _within(value, schema),
        )
    )


def _members_satisfy(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any]) -> bool:
    known = schema.get("properties", {})
    return set(schema.get("required", ())) <= set(value) and all(
        satisfies(each, known.get(name, {}), root) for name, each in value.items()
    )


def _within(value: float, schema: dict[str, Any]) -> bool:
    return (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and schema.get("exclusiveMinimum", value - 1) < value < schema.get("exclusiveMaximum", value + 1)
        and value % schema.get("multipleOf", 1 if isinstance(value, int) else value) == 0
    )


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: orjson.dumps(schema).decode()[:40])
@pytest.mark.parametrize("field", ["responseJsonSchema", "responseSchema"])
def test_json_satisfies_the_schema(schema: dict[str, Any], field: str) -> None:
    generation = {"responseMimeType": "application/json", field: schema}
    value = orjson.loads(text(wire(said('Something "quoted", and 7', generationConfig=generation))))
    assert satisfies(value, schema, schema), value


def test_an_enum_is_answered_as_plain_text() -> None:
    generation = {
        "responseMimeType": "text/x.enum",
        "responseSchema": {"type": "STRING", "enum": ["yes", "no"]},
    }
    assert text(wire(said("Well?", generationConfig=generation))) == "yes"


KEYWORDS = st.sampled_from(
    [
        *(
            "type",
            "enum",
            "const",
            "default",
            "format",
            "pattern",
            "properties",
            "required",
            "$ref",
            "a",
            "b",
        ),
        *("items", "prefixItems", "anyOf", "allOf", "minItems", "maxItems", "minLength", "maxLength"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    ]
)
SCALARS = st.sampled_from(
    [
        *(None, True, -1, 0, 3, 10**18, 1e300, 1e-300, "", "(", "#", "#/a"),
        *("object", "array", "string", "integer", "number", "null"),
    ]
)
NONSENSE = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS, inner, max_size=5),
    max_leaves=30,
)


@given(st.dictionaries(KEYWORDS, NONSENSE, max_size=6))
def test_every_schema_gets_an_answer(schema: dict[str, Any]) -> None:
    orjson.dumps(Sampler(schema, ArgumentHints("7 'x'")).sample())


def test_answers_to_exploding_schemas_stay_small() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"required": list("bcdefgh"), "properties": {}}}}
    schema["$defs"]["a"]["properties"] = {name: {"$ref": "#/$defs/a"} for name in "bcdefgh"}  # type: ignore[index]
    assert len(orjson.dumps(Sampler(schema, ArgumentHints("")).sample())) < 100_000
