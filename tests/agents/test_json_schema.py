"""Values and schemas: what does not fit, and which schemas cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.agents.json_schema import MAX_DEPTH, BrokenSchema, check_schema, problems

TREE = {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}}


@pytest.mark.parametrize(
    ("value", "schema", "wrong"),
    [
        ({}, {}, []),
        ({"a": 1}, {"properties": {"a": {"type": "string"}}}, ["a must be string"]),
        ([1, "x"], {"items": {"type": "integer"}}, ["[1] must be integer"]),
        ({"a": [{"b": 1}]}, {"properties": {"a": {"items": {"required": ["c"]}}}}, ["a[0] lacks 'c'"]),
        ({"a": 1}, {"properties": {}, "additionalProperties": False}, ["a is not allowed"]),
        (True, {"type": "integer"}, ["the value must be integer"]),
        (2.0, {"type": "integer"}, []),
        (float("inf"), {"type": "number"}, ["the value must be number"]),
        (None, {"type": ["string", "null"]}, []),
        ("c", {"enum": ["a", "b"]}, ["the value must be one of ['a', 'b']"]),
        (1, {"const": 2}, ["the value must be 2"]),
        (0, {"minimum": 1}, ["the value must be at least 1"]),
        ("", {"minLength": 1}, ["the value must have at least this many characters: 1"]),
        ([1, 2], {"maxItems": 1}, ["the value must have at most this many items: 1"]),
        ("abc", {"pattern": "^b"}, ["the value must match the pattern '^b'"]),
        (
            1,
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            ["the value fits none of the 2 schemas of anyOf"],
        ),
        (
            {},
            {"allOf": [{"required": ["a"]}, {"required": ["b"]}]},
            ["the value lacks 'a'", "the value lacks 'b'"],
        ),
        ({"next": {"next": 1}}, TREE, []),
        (list(range(9)), {"items": {"type": "string"}}, [f"[{n}] must be string" for n in range(5)]),
    ],
)
def test_problems_in_words(value: Any, schema: dict[str, Any], wrong: list[str]) -> None:
    check_schema(schema)
    assert problems(value, schema) == wrong


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert problems(1, {"$ref": "#"}) == ["the value is nested too deeply"]


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ("text", "schema must be an object"),
        ({"type": "strng"}, "schema.type"),
        ({"properties": []}, "schema.properties"),
        ({"properties": {"a": {"type": "int"}}}, "schema.properties.a.type"),
        ({"required": "a"}, "schema.required"),
        ({"items": [1]}, "schema.items"),
        ({"anyOf": {"type": "string"}}, "schema.anyOf"),
        ({"pattern": "(?=x)"}, "schema.pattern"),
        ({"pattern": 1}, "schema.pattern"),
        ({"minimum": "1"}, "schema.minimum"),
        ({"$ref": "https://example.com/schema"}, "not a reference inside"),
        ({"$ref": "#/$defs/none"}, "names nothing"),
    ],
)
def test_a_broken_schema_is_named(schema: Any, place: str) -> None:
    with pytest.raises(BrokenSchema, match=place.replace("$", r"\$")):
        check_schema(schema)


def test_a_schema_that_is_too_deep_is_broken() -> None:
    schema: dict[str, Any] = {}
    for _ in range(MAX_DEPTH + 2):
        schema = {"items": schema}
    with pytest.raises(BrokenSchema, match="nested too deeply"):
        check_schema(schema)
