"""Fields for the schemas of request envelopes: JSON as it stands, never "7" for 7 or "yes" for true.

They check and hand on the very value they were given; a client's explicit null counts as not given. Each
carries what it checks as JSON Schema too, from which docs/openapi.json is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from marshmallow import ValidationError, fields

Check = Callable[[Any], None]
JSON_SCHEMA = "json_schema"  #: the place in a field's metadata


def _field(check: Check, shape: dict[str, Any], *, required: bool = False) -> fields.Raw:
    messages: dict[str, Any] = {"required": "is required", "null": "must not be null"}
    return fields.Raw(
        required=required,
        allow_none=not required,
        validate=check,
        error_messages=messages,
        metadata={JSON_SCHEMA: shape},
    )


def _check(holds: Callable[[Any], bool], wanted: str) -> Check:
    def check(value: Any) -> None:
        if not holds(value):
            raise ValidationError(f"must be {wanted}")

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def flag() -> fields.Raw:
    return _field(_check(lambda value: isinstance(value, bool), "true or false"), {"type": "boolean"})


def number(least: float, most: float) -> fields.Raw:
    return _field(
        _check(
            lambda value: _is_number(value) and least <= value <= most, f"a number from {least} to {most}"
        ),
        {"type": "number", "minimum": least, "maximum": most},
    )


def whole(least: int | None = None, most: int | None = None, *, required: bool = False) -> fields.Raw:
    low, high = least is None, most is None
    bounds = f" from {least}" * (not low) + f" to {most}" * (not high)
    limits = {name: limit for name, limit in (("minimum", least), ("maximum", most)) if limit is not None}
    return _field(
        _check(
            lambda value: (
                type(value) is int and (low or value >= least) and (high or value <= most)  # type: ignore[operator]
            ),
            f"a whole number{bounds}",
        ),
        {"type": "integer", **limits},
        required=required,
    )


def text(*, required: bool = False, longest: int = 1024) -> fields.Raw:
    return _field(
        _check(
            lambda value: isinstance(value, str) and 0 < len(value) <= longest,
            f"a string of 1 to {longest} characters",
        ),
        {"type": "string", "minLength": 1, "maxLength": longest},
        required=required,
    )


def any_text() -> fields.Raw:
    return _field(_check(lambda value: isinstance(value, str), "a string"), {"type": "string"})


def one_of(*choices: str) -> fields.Raw:
    return _field(
        _check(lambda value: value in choices, f"one of {', '.join(choices)}"), {"enum": list(choices)}
    )


def mapping() -> fields.Raw:
    return _field(_check(lambda value: isinstance(value, dict), "an object"), {"type": "object"})


def array(*, required: bool = False) -> fields.Raw:
    if required:
        return _field(
            _check(lambda value: isinstance(value, list) and bool(value), "an array with something in it"),
            {"type": "array", "minItems": 1},
            required=True,
        )
    return _field(_check(lambda value: isinstance(value, list), "an array"), {"type": "array"})


def text_or_array(*, required: bool = False) -> fields.Raw:
    return _field(
        _check(
            lambda value: isinstance(value, str | list) and bool(value), "a string or an array, not empty"
        ),
        {"type": ["string", "array"], "minLength": 1, "minItems": 1},
        required=required,
    )


def text_array_or_mapping(*, required: bool = False) -> fields.Raw:
    return _field(
        _check(
            lambda value: isinstance(value, str | list | dict) and bool(value),
            "a string, an array or an object, not empty",
        ),
        {"type": ["string", "array", "object"], "minLength": 1, "minItems": 1, "minProperties": 1},
        required=required,
    )


def refused(why: str) -> fields.Raw:
    """A field that the vendor knows and the bridge cannot serve: left out it would be missed."""

    def check(_value: Any) -> None:
        raise ValidationError(why)

    return _field(check, {"type": "null"})


def mapping_or_array(*, required: bool = False) -> fields.Raw:
    return _field(
        _check(
            lambda value: isinstance(value, dict | list) and bool(value), "an array or an object, not empty"
        ),
        {"type": ["array", "object"], "minItems": 1, "minProperties": 1},
        required=required,
    )
