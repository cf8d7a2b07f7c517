"""A value that the client's schema accepts is accepted by the schemas that the bridge sends.

Both forms are checked: the first one, and the simple one that is sent after Gemini rejected the first. Gemini
ignores keywords that it does not document, so each form is also checked without them.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bridge.gemini.repairs import with_simple_schemas
from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.types import FunctionDeclaration, GenerateRequest, Tool

ANY_SPEED = settings(deadline=None, max_examples=400)

Schema = dict[str, Any]

#: The keywords that Google documents for `responseJsonSchema`, which apply to `parametersJsonSchema` too.
DOCUMENTED = frozenset(
    [
        "type",
        "format",
        "title",
        "description",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "properties",
        "additionalProperties",
        "required",
        "propertyOrdering",
    ]
)
DRAFTS = {
    "2020-12": jsonschema_rs.Draft202012Validator,
    "draft-07": jsonschema_rs.Draft7Validator,
}


def first_form(schema: Schema) -> Schema:
    prepared: Schema = RequestSchemas().answer_format(schema, "schema")["responseJsonSchema"]
    return prepared


def simple_form(schema: Schema) -> Schema:
    tool = Tool((FunctionDeclaration("look", schema=first_form(schema)),))
    repaired = with_simple_schemas(GenerateRequest("m", (), tools=(tool,)))
    return dict(repaired.tools[0].functions[0].schema or {})


def as_gemini_reads(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {key: _below(key, value) for key, value in schema.items() if key in DOCUMENTED}


def _below(keyword: str, value: Any) -> Any:
    if keyword == "properties":
        return {name: as_gemini_reads(child) for name, child in value.items()}
    if keyword in ("anyOf", "prefixItems"):
        return [as_gemini_reads(child) for child in value]
    return as_gemini_reads(value) if keyword in ("items", "additionalProperties") else value


def accepts(schema: Schema, value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


# --- generated schemas -------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "xa", "$ref"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([0.5, 1.0, -1.5])
    | st.sampled_from(["", "a", "bb", "ccc"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
REFERENCES = st.sampled_from(
    ["#", "#/$defs/A", "#/$defs/B", "#/$defs/A/anyOf/0", "#/$defs/B/properties/a", "#/$defs/%41"]
)
PATTERNS = st.sampled_from(["^x", "a$", ".*"])


def _keywords(inner: st.SearchStrategy[Any], draft: str) -> dict[str, st.SearchStrategy[Any]]:
    some = st.lists(inner, min_size=1, max_size=3)
    tuples = {
        "prefixItems": some,
        "items": inner,
        "unevaluatedItems": inner,
        "dependentSchemas": named(inner),
    }
    older = {"items": inner | some, "additionalItems": inner}
    return {
        "$ref": REFERENCES,
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "nullable": st.booleans(),
        "properties": named(inner),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "additionalProperties": inner,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "propertyNames": inner,
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(0, 3),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 3),
        "uniqueItems": st.booleans(),
        "contains": inner,
        "minimum": st.integers(-2, 2),
        "maximum": st.integers(-2, 2),
        "exclusiveMinimum": st.integers(-2, 2),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a", "b$"]),
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        **(tuples if draft == "2020-12" else older),
        **({"unevaluatedProperties": inner} if draft == "2020-12" else {}),
    }


def named(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(NAMES, inner, max_size=3)


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Any], draft: str) -> Schema:
    keywords = _keywords(inner, draft)
    chosen = draw(st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True))
    return {keyword: draw(keywords[keyword]) for keyword in chosen}


def schemas(draft: str) -> st.SearchStrategy[Schema]:
    nodes = st.recursive(
        st.booleans() | st.builds(lambda name: {"type": name}, TYPES),
        lambda inner: _objects(inner, draft),
        max_leaves=8,
    )
    declared = {} if draft == "2020-12" else {"$schema": f"http://json-schema.org/{draft}/schema#"}
    return st.builds(
        lambda root, a, b: {**declared, **root, "$defs": {"A": a, "B": b}},
        _objects(nodes, draft),
        _objects(nodes, draft),
        _objects(nodes, draft),
    )


def check_values(schema: Schema, values: list[Any], draft: str) -> bool:
    """Whether the client's schema accepts a value. Fails if a schema that is sent does not accept it."""
    try:
        accepted = list(filter(DRAFTS[draft](schema).is_valid, values))
    except jsonschema_rs.ValidationError:  # a reference to nowhere
        accepted = []
    for form in (first_form, simple_form):
        sent = form(schema)
        for reader in (dict, as_gemini_reads):
            refused = [value for value in accepted if not accepts(reader(sent), value)]
            assert refused == [], f"{form.__name__}: {sent}"
    return bool(accepted)


@ANY_SPEED
@given(schema=schemas("2020-12"), values=st.lists(VALUES, min_size=8, max_size=8))
def test_a_value_of_the_clients_schema_is_accepted(schema: Schema, values: list[Any]) -> None:
    assume(check_values(schema, values, "2020-12"))


@ANY_SPEED
@given(schema=schemas("draft-07"), values=st.lists(VALUES, min_size=8, max_size=8))
def test_a_value_of_an_older_schema_is_accepted(schema: Schema, values: list[Any]) -> None:
    assume(check_values(schema, values, "draft-07"))


ACCEPTED: list[tuple[Schema, Any]] = [
    ({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}, {"xa": "a"}),
    ({"patternProperties": {"^x": {}}, "additionalProperties": {"type": "null"}}, {"xa": 1, "a": None}),
    (
        {
            "patternProperties": {"^x": {"type": "string"}},
            "allOf": [{"additionalProperties": {"maxLength": 1}}],
        },
        {"xa": "a"},
    ),
    ({"allOf": [{"type": "integer"}, {"type": ["number", "null"]}]}, 1),
    (
        {"allOf": [{"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, {"items": {}}]},
        ["a", 1],
    ),
    ({"allOf": [{"enum": [1, {"a": 1}]}, {"enum": [{"a": 1.0}, 2]}]}, {"a": 1}),
    ({"not": {"oneOf": [{"type": "string"}, {"minLength": 2}]}}, "aa"),
    ({"if": {"$ref": "#"}, "then": {"type": "string"}, "else": {"type": "integer"}}, "a"),
    ({"oneOf": [{"properties": {"b": {}}}], "unevaluatedProperties": False, "anyOf": [True]}, {"b": 1}),
    (
        {"contains": {"oneOf": [{"type": "string"}, {"minLength": 2}]}, "maxContains": 0, "minContains": 0},
        ["aa"],
    ),
    ({"type": ["string", "integer"], "enum": ["a", 1]}, 1),
    (
        {"type": ["array", "null"], "prefixItems": [{"type": "string"}], "items": {"type": "null"}},
        ["a", None],
    ),
    ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]}, [["a", ["b"]]]),
]


@pytest.mark.parametrize(("schema", "value"), ACCEPTED)
def test_these_values_are_accepted(schema: Schema, value: Any) -> None:
    assert check_values(schema, [value], "2020-12")


# --- single rules ------------------------------------------------------------------------------------

NAME = {"type": "string", "minLength": 1}
MERGED: dict[str, tuple[Schema, Schema]] = {
    "const": ({"const": "a"}, {"enum": ["a"]}),
    "const beside enum": ({"enum": ["a", "b"], "const": "b"}, {"enum": ["b"]}),
    "one branch": ({"description": "Mine.", "allOf": [NAME]}, {**NAME, "description": "Mine."}),
    "own words": ({"title": "A", "allOf": [{"title": "B", **NAME}]}, {"title": "A", **NAME}),
    "properties": (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"a": {"minLength": 1}, "b": {}}, "required": ["b", "a"]},
            ]
        },
        {"type": "object", "properties": {"a": NAME, "b": {}}, "required": ["a", "b"]},
    ),
    "bounds": (
        {"minimum": 1, "allOf": [{"minimum": 3, "maximum": 9}], "maximum": 7},
        {"minimum": 3, "maximum": 7},
    ),
    "types": ({"allOf": [{"type": ["integer", "null"]}, {"type": "number"}]}, {"type": "integer"}),
    "contradicting types": ({"allOf": [{"type": "string"}, {"type": "object"}]}, {"type": "object"}),
    "choices": ({"allOf": [{"enum": ["a", "b", "c"]}, {"enum": ["c", "b"]}]}, {"enum": ["b", "c"]}),
    "contradicting choices": ({"allOf": [{"enum": ["a"]}, {"enum": ["b", "c"]}]}, {"enum": ["a"]}),
    "items": (
        {"items": {"type": "string"}, "allOf": [{"items": {"minLength": 1}}]},
        {"items": {"minLength": 1, "type": "string"}},
    ),
    "tuples": (
        {"allOf": [{"prefixItems": [{"type": "string"}]}, {"prefixItems": [{"minLength": 1}, {}]}]},
        {"prefixItems": [NAME, {}]},
    ),
    "branches in branches": (
        {"allOf": [{"allOf": [NAME]}, {"allOf": [{"maxLength": 4}]}]},
        {**NAME, "maxLength": 4},
    ),
    "true": ({"allOf": [True, NAME]}, NAME),
    "references": ({"allOf": [{"$ref": "#/$defs/N"}, {"maxLength": 4}]}, {**NAME, "maxLength": 4}),
    "nullable": (
        {"type": "string", "nullable": True, "enum": ["a"]},
        {"type": ["string", "null"], "enum": ["a", None]},
    ),
    "not nullable": ({"type": "string", "nullable": False}, {"type": "string"}),
    "nullable reference": (
        {"allOf": [{"$ref": "#/$defs/N"}], "nullable": True},
        {**NAME, "type": ["string", "null"]},
    ),
    "nullable union": (
        {"oneOf": [NAME, {"type": "integer"}], "nullable": True},
        {"anyOf": [NAME, {"type": "integer"}, {"type": "null"}]},
    ),
    "a recursive union": (
        {"$ref": "#/$defs/Json"},
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {}}]},
    ),
    "a closed map by patterns": (
        {
            "patternProperties": {"^a": {"type": "string"}, "^b": {"type": "integer"}},
            "additionalProperties": False,
        },
        {"additionalProperties": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
    ),
}
DEFINITIONS = {
    "N": NAME,
    "Json": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Json"}}]},
}


@pytest.mark.parametrize("name", MERGED)
def test_schemas_are_merged(name: str) -> None:
    declared, sent = MERGED[name]
    assert first_form({**declared, "$defs": DEFINITIONS}) == sent


def test_keywords_beside_a_reference_count_as_the_schemas_draft_says() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/definitions/N", "maxLength": 4, "title": "A"}},
        "definitions": {"N": NAME},
    }
    assert first_form(schema)["properties"]["a"] == {**NAME, "maxLength": 4, "title": "A"}
    older = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    assert first_form(older)["properties"]["a"] == {**NAME, "title": "A"}


SIMPLE: dict[str, tuple[Schema, Schema]] = {
    "any array": ({"type": "array"}, {"type": "array", "items": {}}),
    "a tuple": (
        {"type": "array", "prefixItems": [NAME], "items": {"type": "integer"}},
        {"type": "array", "items": {}},
    ),
    "any value": ({"properties": {"a": True, "b": {}}}, {"properties": {"a": {}, "b": {}}}),
    "several types": (
        {"type": ["object", "null"], "properties": {"a": NAME}, "description": "Mine."},
        {
            "description": "Mine.",
            "anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}],
        },
    ),
    "one type in a list": ({"type": ["string"]}, {"type": "string"}),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_the_simple_form_is_not_narrower(name: str) -> None:
    declared, sent = SIMPLE[name]
    assert simple_form(declared) == sent


@given(schema=schemas("2020-12"))
def test_the_same_schema_gives_the_same_bytes(schema: Schema) -> None:
    assert orjson.dumps(first_form(schema)) == orjson.dumps(first_form(orjson.loads(orjson.dumps(schema))))
    assert orjson.dumps(simple_form(schema)) == orjson.dumps(simple_form(schema))
