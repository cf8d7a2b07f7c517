"""The walk that the other tests rely on finds what is wrong, and agrees with the library."""

from __future__ import annotations

import copy

import pytest
from checked_answers import CHECKED_CALLERS, EXPECTED, of_transcript, schemas
from vendor_schemas import UNKNOWN, VendorSchemas, document

SCHEMAS = VendorSchemas(
    {
        "Pet": {"anyOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]},
        "Cat": {
            "type": "object",
            "properties": {"kind": {"enum": ["cat"]}, "lives": {"type": "integer", "minimum": 1}},
            "required": ["kind", "lives"],
        },
        "Dog": {
            "allOf": [
                {"type": "object", "properties": {"kind": {"const": "dog"}}, "required": ["kind"]},
                {"type": "object", "properties": {"name": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
            ]
        },
        "Owner": {
            "type": "object",
            "properties": {
                "pets": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
                "notes": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
    }
)


@pytest.mark.parametrize(
    ("pet", "causes"),
    [
        ({"kind": "cat", "lives": 9}, []),
        ({"kind": "dog", "name": None}, []),
        ({"kind": "cat"}, [("Cat", "lives", "required")]),
        ({"kind": "cat", "lives": 0}, [("Cat", "lives", "minimum")]),
        ({"kind": "cat", "lives": "9"}, [("Cat", "lives", "type")]),
        ({"kind": "cat", "lives": 9, "name": "Tom"}, [("Cat", "name", UNKNOWN)]),
        ({"kind": "dog", "name": 1}, [("Dog", "name", "type")]),
        ({"kind": "bird"}, [("Pet", "kind", "anyOf:bird")]),
        ("cat", [("Pet", "", "type")]),
    ],
)
def test_a_finding_names_the_alternative_that_was_meant(pet, causes):
    assert [finding.cause for finding in SCHEMAS.findings("Pet", pet)] == causes


def test_a_finding_names_its_place_in_the_body():
    wrong = {"pets": [{"kind": "dog"}, {"kind": "cat", "lives": None}], "notes": {"a": "b", "c": 1}}
    places = [(finding.place, finding.rule) for finding in SCHEMAS.findings("Owner", wrong)]
    assert places == [("pets[].lives", "type"), ("notes.c", "type")]


@pytest.mark.parametrize("name", ["grounded", "thinks_then_two_calls", "cut_mid_sentence"])
@pytest.mark.parametrize("told", CHECKED_CALLERS, ids=lambda told: told.label)
def test_the_walk_agrees_with_the_library(name, told):
    """On each answer, and on each with a property taken away or of another type."""
    judged = set()
    for answer in of_transcript(name, told):
        for source, component in EXPECTED[answer.kind].items():
            for value in (answer.value, *_damaged(answer.value)):
                wrong = [each for each in schemas(source).findings(component, value) if each.rule != UNKNOWN]
                assert schemas(source).is_valid(component, value) is not bool(wrong), (value, wrong)
                judged.add(bool(wrong))
    assert judged == {True, False}


def _damaged(value):
    for name in value:
        poorer = copy.copy(value)
        del poorer[name]
        yield poorer
        yield {**value, name: [[]]}


def test_documents_hold_structure_and_no_texts():
    for name in ("openai", "openresponses"):
        assert _keywords(list(document(name).components.values())).isdisjoint(
            {"description", "title", "example", "examples", "default", "deprecated", "x-oaiMeta", "oneOf"}
        )


def _keywords(schema):
    """The names used as keywords, not those of properties."""
    if isinstance(schema, list):
        return set().union(*map(_keywords, schema))
    if not isinstance(schema, dict):
        return set()
    inner = [*schema.get("properties", {}).values()]
    inner += [
        value for name, value in schema.items() if name not in ("properties", "required", "enum", "const")
    ]
    return set(schema).union(*map(_keywords, inner))
