"""Envelope fields accept exactly JSON's types, even where marshmallow's own fields accept more."""

from __future__ import annotations

import pytest
from marshmallow import ValidationError

from bridge.protocols import fields
from bridge.protocols.envelope import Envelope


class Sample(Envelope):
    flag = fields.flag()
    number = fields.number(0, 2)
    whole = fields.whole(1, 8)
    text = fields.text(longest=3)
    one_of = fields.one_of("low", "high")
    mapping = fields.mapping()
    array = fields.array()
    either = fields.text_or_array()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        *(("flag", value, "must be true or false") for value in (1, 0, 1.0, "true", "yes", [])),
        *(("number", value, "must be a number from 0 to 2") for value in ("0.7", True, 2.1, -1, 10**400, [])),
        *(("number", value, "must be a number from 0 to 2") for value in (float("nan"), float("inf"))),
        *(("whole", value, "must be a whole number from 1 to 8") for value in ("7", True, 2.0, 0, 9)),
        *(("text", value, "must be a string of 1 to 3 characters") for value in ("", "long", 7)),
        *(("one_of", value, "must be one of low, high") for value in ("Low", 1, ["low"])),
        *(("mapping", value, "must be an object") for value in ([], "{}", 1)),
        *(("array", value, "must be an array") for value in ({}, {"a": 1}, "ab")),
        *(("either", value, "must be a string or an array, not empty") for value in ("", [], {"a": 1}, 1)),
    ],
)
def test_a_value_of_the_wrong_type_or_range_is_refused(name, value, told):
    with pytest.raises(ValidationError) as refused:
        Sample().load({name: value})
    assert refused.value.messages == {name: [told]}


@pytest.mark.parametrize(
    ("name", "value"),
    [("number", 1), ("number", 0.7), ("whole", 8), ("flag", False), ("array", [{}]), ("mapping", {"a": []})],
)
def test_a_valid_value_is_unchanged(name, value):
    assert Sample().load({name: value})[name] is value


def test_null_counts_as_not_given_and_unknown_fields_pass():
    body = {**dict.fromkeys(Sample().fields), "new_this_month": 1}
    assert Sample().load(body) == body
