"""Schemas of tools and answers: the client's content is kept, and unsupported parts are removed."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.errors import InvalidRequest
from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.tool_schema import MAX_DEPTH, MAX_EXPANDED_BYTES

ANY_SPEED = settings(deadline=None)
PARAM = "tools[0].function.parameters"

Schema = dict[str, Any]


def prepare_schema(schema: Schema, param: str) -> Schema:
    prepared: Schema = RequestSchemas().answer_format(schema, param)["responseJsonSchema"]
    return prepared


def prepare_object_schema(schema: Schema, param: str) -> Schema:
    return dict(RequestSchemas().tool_schema("look", schema, param))


def plain(schema: Schema) -> Schema:
    return prepare_schema(schema, PARAM)


def with_properties(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties}


# --- by position, not by name ------------------------------------------------------------------------

KEYWORDS_AS_NAMES = [
    "$ref",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "format",
    "default",
    "items",
    "properties",
    "x-foo",
    "anyOf",
    "enum",
    "pattern",
]


@pytest.mark.parametrize("name", KEYWORDS_AS_NAMES)
@pytest.mark.parametrize("keyword", ["properties", "patternProperties", "dependentSchemas"])
def test_a_property_named_like_a_keyword_survives(name: str, keyword: str) -> None:
    schema = {"type": "object", keyword: {name: {"type": "string", "description": "Mine."}}}
    assert plain(schema) == schema


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "examples", "example"])
def test_values_in_a_schema_are_not_changed(keyword: str) -> None:
    value = [{"$ref": "#/nowhere", "$comment": "data", "x-y": 1, "properties": {"a": {"$schema": 1}}}]
    assert plain({"type": "object", keyword: value}) == {"type": "object", keyword: value}


def test_annotations_are_dropped_at_every_depth() -> None:
    remarks = {"$schema": "s", "$id": "i", "$comment": "c", "x-order": 1, "$defs": {}, "definitions": {}}
    schema = {
        **remarks,
        **with_properties(a={"type": "array", "items": {"type": "string", **remarks}, **remarks}),
    }
    assert plain(schema) == with_properties(a={"type": "array", "items": {"type": "string"}})


SCHEMA_PLACES: dict[str, Any] = {
    "items": lambda inner: {"items": inner},
    "items as a list": lambda inner: {"items": [inner]},
    "additionalProperties": lambda inner: {"additionalProperties": inner},
    "anyOf": lambda inner: {"anyOf": [inner]},
    "oneOf": lambda inner: {"oneOf": [{"type": "null"}, inner]},
    "allOf": lambda inner: {"allOf": [inner]},
    "prefixItems": lambda inner: {"prefixItems": [inner]},
    "not": lambda inner: {"not": inner},
    "if": lambda inner: {"if": inner, "then": inner, "else": inner},
    "contains": lambda inner: {"contains": inner},
    "propertyNames": lambda inner: {"propertyNames": inner},
    "properties": lambda inner: {"properties": {"a": inner}},
    "patternProperties": lambda inner: {"patternProperties": {"^a": inner}},
    "dependentSchemas": lambda inner: {"dependentSchemas": {"a": inner}},
    "unevaluatedProperties": lambda inner: {"unevaluatedProperties": inner},
}


@pytest.mark.parametrize("place", SCHEMA_PLACES)
def test_a_reference_is_expanded_wherever_a_schema_is_allowed(place: str) -> None:
    around = SCHEMA_PLACES[place]
    schema = {"type": "object", **around({"$ref": "#/$defs/Name"}), "$defs": {"Name": {"type": "string"}}}
    assert plain(schema) == {"type": "object", **around({"type": "string"})}


# --- references --------------------------------------------------------------------------------------


def referring(reference: str, **definitions: Any) -> Schema:
    return {**with_properties(a={"$ref": reference}), "$defs": definitions}


@pytest.mark.parametrize(
    ("reference", "definitions"),
    [
        ("#/$defs/Name", {"Name": {"type": "string"}}),
        ("#/$defs/a~1b~0c", {"a/b~c": {"type": "string"}}),
        ("#/$defs/Outer/properties/inner", {"Outer": with_properties(inner={"type": "string"})}),
        ("#/$defs/Union/anyOf/1", {"Union": {"anyOf": [{"type": "null"}, {"type": "string"}]}}),
        ("#/$defs/First", {"First": {"$ref": "#/$defs/Second"}, "Second": {"type": "string"}}),
        # Schema generators encode a type such as Partial<Name> as a URI fragment (RFC 6901, 6).
        ("#/$defs/Partial%3CName%3E", {"Partial<Name>": {"type": "string"}}),
        ("#/%24defs/Name", {"Name": {"type": "string"}}),
    ],
)
def test_a_local_reference_is_replaced_by_its_target(reference: str, definitions: Schema) -> None:
    assert plain(referring(reference, **definitions)) == with_properties(a={"type": "string"})


def test_references_into_definitions_of_older_drafts_work() -> None:
    schema = {
        **with_properties(a={"$ref": "#/definitions/Name"}),
        "definitions": {"Name": {"type": "string"}},
    }
    assert plain(schema) == with_properties(a={"type": "string"})


def test_a_root_reference_is_replaced_by_its_target() -> None:
    schema = {"$ref": "#/$defs/Args", "$defs": {"Args": with_properties(a={"type": "string"})}}
    assert prepare_object_schema(schema, PARAM) == with_properties(a={"type": "string"})


def test_keywords_beside_a_reference_override_its_target() -> None:
    schema = {
        **with_properties(a={"$ref": "#/$defs/Name", "description": "Here.", "default": "x"}),
        "$defs": {"Name": {"type": "string", "description": "There.", "maxLength": 5}},
    }
    expected = {"type": "string", "maxLength": 5, "description": "Here.", "default": "x"}
    assert plain(schema) == with_properties(a=expected)


def test_properties_beside_a_reference_are_merged_with_its_target() -> None:
    schema = {
        "$ref": "#/$defs/Base",
        "properties": {"mine": {"type": "string"}},
        "required": ["mine"],
        "$defs": {"Base": {**with_properties(yours={"type": "integer"}), "required": ["yours"]}},
    }
    prepared = plain(schema)
    assert prepared["properties"] == {"yours": {"type": "integer"}, "mine": {"type": "string"}}
    assert sorted(prepared["required"]) == ["mine", "yours"]


@pytest.mark.parametrize(
    "reference",
    [
        "#/$defs/Nobody",
        "#/$defs/Name/deeper/still",
        "other.json",
        "https://example.com/s#/a",
        "#/type",
        "",
        "a",
    ],
)
def test_an_unresolvable_reference_becomes_a_plain_object(reference: str) -> None:
    assert plain(referring(reference, Name={"type": "string"})) == with_properties(a={"type": "object"})


@pytest.mark.parametrize("step", ["1", "-1", "x", "²", "9" * 5000])
def test_a_reference_past_the_end_of_a_list_is_unresolvable(step: str) -> None:
    schema = {"anyOf": [{"type": "object"}], **with_properties(a={"$ref": f"#/anyOf/{step}"})}
    assert plain(schema)["properties"] == {"a": {"type": "object"}}


def test_a_reference_to_itself_ends_in_a_plain_object() -> None:
    node = with_properties(next={"$ref": "#/$defs/Node"}, value={"type": "integer"})
    schema = {**with_properties(list={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}
    expected = with_properties(next={"type": "object"}, value={"type": "integer"})
    assert plain(schema) == with_properties(list=expected)


def test_two_definitions_that_name_each_other_end_in_a_plain_object() -> None:
    schema = referring(
        "#/$defs/A", A=with_properties(b={"$ref": "#/$defs/B"}), B=with_properties(a={"$ref": "#/$defs/A"})
    )
    inner = with_properties(b=with_properties(a={"type": "object"}))
    assert plain(schema) == with_properties(a=inner)


def test_a_definition_that_is_only_a_reference_to_itself_is_a_plain_object() -> None:
    assert plain(referring("#/$defs/A", A={"$ref": "#/$defs/A"})) == with_properties(a={"type": "object"})


def test_a_reference_to_the_root_is_expanded_once() -> None:
    schema = with_properties(child={"$ref": "#"}, name={"type": "string"})
    child = with_properties(child={"type": "object"}, name={"type": "string"})
    assert plain(schema) == with_properties(child=child, name={"type": "string"})


# --- bounds ------------------------------------------------------------------------------------------


def nodes_in(schema: Any) -> int:
    if isinstance(schema, dict):
        return 1 + sum(map(nodes_in, schema.values()))
    return sum(map(nodes_in, schema)) if isinstance(schema, list) else 0


def test_references_that_double_at_every_step_do_not_explode() -> None:
    definitions = {
        f"D{level}": {"anyOf": [{"$ref": f"#/$defs/D{level + 1}"}, {"$ref": f"#/$defs/D{level + 1}"}]}
        for level in range(30)
    }
    prepared = plain({**with_properties(a={"$ref": "#/$defs/D0"}), "$defs": definitions})
    assert nodes_in(prepared) < 10_000


LARGE = 2000
SIZEABLE: dict[str, Schema] = {
    "values": {"enum": [f"v{number:05}" for number in range(LARGE)]},
    "open properties": {"properties": {f"p{number:05}": True for number in range(LARGE)}},
    "unknown words": {f"w{number:05}": 0 for number in range(LARGE)},
    "a long description": {"description": "v" * 9 * LARGE},
}


@pytest.mark.parametrize("name", SIZEABLE)
def test_a_large_definition_named_many_times_does_not_explode(name: str) -> None:
    references = {f"r{number}": {"$ref": "#/$defs/D"} for number in range(1000)}
    schema = {**with_properties(**references), "$defs": {"D": {"type": "string", **SIZEABLE[name]}}}
    assert len(orjson.dumps(schema)) < 100_000
    assert len(orjson.dumps(plain(schema))) < MAX_EXPANDED_BYTES + 100_000


def nested(depth: int, around: Any) -> Schema:
    schema: Schema = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", **around(schema)}
    return schema


@pytest.mark.parametrize("place", sorted(SCHEMA_PLACES.keys() - {"if"}))
def test_a_schema_that_is_too_deep_is_refused_with_its_name(place: str) -> None:
    assert plain(nested(MAX_DEPTH, SCHEMA_PLACES[place])) == nested(MAX_DEPTH, SCHEMA_PLACES[place])
    for depth in (MAX_DEPTH + 1, 1000):
        with pytest.raises(InvalidRequest) as refused:
            plain(nested(depth, SCHEMA_PLACES[place]))
        assert refused.value.param == PARAM
        assert PARAM in refused.value.message


def test_a_chain_of_references_that_is_too_long_is_refused_with_its_name() -> None:
    definitions = {f"D{level}": {"$ref": f"#/$defs/D{level + 1}"} for level in range(2000)}
    with pytest.raises(InvalidRequest) as refused:
        plain({"$ref": "#/$defs/D0", "$defs": definitions})
    assert refused.value.param == PARAM


# --- the root ----------------------------------------------------------------------------------------

OPEN = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, OPEN),
        ({"$schema": "x"}, OPEN),
        ({"type": "object"}, {"type": "object"}),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": True}}),
        ({"type": ["object", "null"]}, {"type": "object"}),
        ({"anyOf": [{"type": "object"}]}, {"type": "object", "anyOf": [{"type": "object"}]}),
        ({"description": "Anything."}, {"type": "object", "description": "Anything."}),
        ({"$ref": "#/$defs/Nobody"}, {"type": "object"}),
    ],
)
def test_the_root_of_a_tools_schema_is_an_object(schema: Schema, expected: Schema) -> None:
    assert prepare_object_schema(schema, PARAM) == expected


@pytest.mark.parametrize("kind", ["string", "array", ["string", "null"], [], None, 7, {}, ""])
def test_a_root_that_cannot_be_an_object_is_refused_with_the_tools_name(kind: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        prepare_object_schema({"type": kind}, PARAM)
    assert refused.value.param == PARAM


def test_an_answers_schema_may_have_any_root() -> None:
    schema = {"type": "array", "items": {"type": ["string", "null"]}}
    assert plain(schema) == schema


@pytest.mark.parametrize("boolean", [True, False])
def test_schemas_that_are_true_or_false_pass(boolean: bool) -> None:
    schema = {
        **with_properties(a=boolean),
        "additionalProperties": boolean,
        "items": boolean,
        "anyOf": [boolean],
    }
    assert plain(schema) == schema


# --- any schema --------------------------------------------------------------------------------------

REFERENCES = st.sampled_from(
    ["#", "#/", "#/$defs/A", "#/$defs/B", "#/$defs/B/properties/a", "#/properties/a", "#/anyOf/0", "#x", "y"]
)
NONSENSE = (
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "string", "$ref"]) | REFERENCES
)
NAMES = st.sampled_from(["a", "b", "$ref", "title", "properties", "x-foo", ""])


def _deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    maps = st.dictionaries(NAMES, inner, max_size=3)
    lists = st.lists(inner, max_size=3)
    anything = inner | maps | lists
    return st.fixed_dictionaries(
        {},
        optional={
            "$ref": REFERENCES | anything,
            "type": st.sampled_from(["object", "string", ["object", "null"]]) | anything,
            "properties": maps | anything,
            "required": lists,
            "items": anything,
            "additionalProperties": anything,
            "anyOf": lists | anything,
            "enum": lists | anything,
            "default": anything,
            "$defs": maps | anything,
            "x-foo": anything,
            "description": anything,
        },
    )


NODES = st.recursive(NONSENSE, _deeper, max_leaves=12)
SCHEMAS = st.builds(
    lambda root, a, b: {**root, "$defs": {"A": a, "B": b}}, _deeper(NODES), NODES, _deeper(NODES)
)


def prepared_or_none(prepare: Any, schema: Schema) -> Schema | None:
    try:
        return prepare(schema, PARAM)
    except InvalidRequest as refused:
        return None if refused.param == PARAM else {"refused without a name": refused.param}


@ANY_SPEED
@given(schema=SCHEMAS)
def test_any_schema_is_prepared_or_refused_and_left_alone(schema: Schema) -> None:
    before = copy.deepcopy(schema)
    for prepare in (prepare_schema, prepare_object_schema):
        prepared = prepared_or_none(prepare, schema)
        assert schema == before
        assert prepared is None or orjson.loads(orjson.dumps(prepared)) == prepared
    if prepared is not None:
        assert prepared["type"] == "object"


@ANY_SPEED
@given(schema=SCHEMAS)
def test_a_prepared_schema_is_not_changed_again(schema: Schema) -> None:
    for prepare in (prepare_schema, prepare_object_schema):
        prepared = prepared_or_none(prepare, schema)
        if prepared is not None:
            assert prepare(prepared, PARAM) == prepared


@ANY_SPEED
@given(schema=SCHEMAS)
def test_no_reference_remains_in_a_prepared_schema(schema: Schema) -> None:
    prepared = prepared_or_none(prepare_schema, schema)
    if prepared is not None:
        assert not any(isinstance(node.get("$ref"), str) for node in schema_nodes(prepared))


def schema_nodes(schema: Any) -> list[Schema]:
    if not isinstance(schema, dict):
        return []
    below = [schema.get("items"), schema.get("additionalProperties")]
    if isinstance(schema.get("properties"), dict):
        below += schema["properties"].values()
    for key in ("anyOf", "items"):
        if isinstance(schema.get(key), list):
            below += schema[key]
    return [schema, *(node for child in below for node in schema_nodes(child))]
