"""Fields for request schemas. They accept strict JSON types only, never "7" for 7 or "yes" for true.

Marshmallow's types and validators do the checks; subclasses reject what marshmallow would convert. An
explicit null counts as a missing field. Each field also carries its JSON Schema, from which docs/openapi.json
is generated.
"""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields
from marshmallow.validate import Length, OneOf, Range, Validator

JSON_SCHEMA = "json_schema"  #: the key in a field's metadata


class JsonBoolean(fields.Boolean):
    """Rejects 1, which marshmallow accepts as true because the two are equal."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> bool:
        if value is True or value is False:
            return bool(value)
        raise self.make_error("invalid")


class JsonNumber(fields.Float):
    """Rejects "0.7", which marshmallow accepts as 0.7."""

    def _validated(self, value: Any) -> float:
        if isinstance(value, str):
            raise self.make_error("invalid")
        return super()._validated(value)


class JsonArray(fields.List[Any]):
    """Rejects objects, which marshmallow accepts as lists, and does not visit the items of a long list."""

    def __init__(self, **options: Any) -> None:
        super().__init__(fields.Raw(), **options)

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> list[Any]:
        if isinstance(value, list):
            return value
        raise self.make_error("invalid")


class OneOfTypes(Validator):
    """Accepts values of several types, for which marshmallow has no field.

    An empty value is accepted only if its type may be empty.
    """

    def __init__(self, *types: type, error: str, may_be_empty: type | tuple[type, ...] = ()) -> None:
        self.types = types
        self.message = error
        self.may_be_empty = may_be_empty

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, self.types) or not (value or isinstance(value, self.may_be_empty)):
            raise ValidationError(self.message)
        return value


class Unsupported(Validator):
    """Rejects every value."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __call__(self, value: Any) -> Any:
        raise ValidationError(self.why)


def _options(wanted: str, shape: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    """The options that all fields share. The error message is the same for every kind of wrong value."""
    wrong = dict.fromkeys(("invalid", "too_large", "special"), f"must be {wanted}")
    return {
        "required": required,
        "allow_none": not required,
        "error_messages": {"required": "is required", "null": "must not be null", **wrong},
        "metadata": {JSON_SCHEMA: shape},
    }


def flag() -> fields.Field[Any]:
    return JsonBoolean(**_options("true or false", {"type": "boolean"}))


def number(least: float, most: float) -> fields.Field[Any]:
    wanted = f"a number from {least} to {most}"
    shape = {"type": "number", "minimum": least, "maximum": most}
    return JsonNumber(validate=Range(least, most, error=f"must be {wanted}"), **_options(wanted, shape))


def whole(least: int | None = None, most: int | None = None, *, required: bool = False) -> fields.Field[Any]:
    bounds = f" from {least}" * (least is not None) + f" to {most}" * (most is not None)
    wanted = f"a whole number{bounds}"
    limits = {name: limit for name, limit in (("minimum", least), ("maximum", most)) if limit is not None}
    return fields.Integer(
        strict=True,
        validate=Range(least, most, error=f"must be {wanted}"),
        **_options(wanted, {"type": "integer", **limits}, required=required),
    )


def text(*, required: bool = False, longest: int = 1024) -> fields.Field[Any]:
    wanted = f"a string of 1 to {longest} characters"
    shape = {"type": "string", "minLength": 1, "maxLength": longest}
    length = Length(1, longest, error=f"must be {wanted}")
    return fields.String(validate=length, **_options(wanted, shape, required=required))


def any_text() -> fields.Field[Any]:
    return fields.String(**_options("a string", {"type": "string"}))


def one_of(*choices: str) -> fields.Field[Any]:
    wanted = f"one of {', '.join(choices)}"
    known = OneOf(choices, error=f"must be {wanted}")
    return fields.String(validate=known, **_options(wanted, {"enum": list(choices)}))


def mapping(*, required: bool = False) -> fields.Field[Any]:
    return fields.Dict(**_options("an object", {"type": "object"}, required=required))


def array(*, required: bool = False) -> fields.Field[Any]:
    if not required:
        return JsonArray(**_options("an array", {"type": "array"}))
    wanted = "an array with at least one item"
    filled = Length(1, error=f"must be {wanted}")
    return JsonArray(validate=filled, **_options(wanted, {"type": "array", "minItems": 1}, required=True))


def text_or_array(*, required: bool = False) -> fields.Field[Any]:
    shape = {"type": ["string", "array"], "minLength": 1, "minItems": 1}
    return _union(str, list, wanted="a string or an array, not empty", shape=shape, required=required)


def any_text_or_array(*, required: bool = False) -> fields.Field[Any]:
    """As above, but the string may be empty."""
    shape = {"type": ["string", "array"], "minItems": 1}
    wanted = "a string, or an array with something in it"
    known = OneOfTypes(str, list, error=f"must be {wanted}", may_be_empty=str)
    return fields.Raw(validate=known, **_options(wanted, shape, required=required))


def text_array_or_mapping(*, required: bool = False) -> fields.Field[Any]:
    shape = {"type": ["string", "array", "object"], "minLength": 1, "minItems": 1, "minProperties": 1}
    wanted = "a string, an array or an object, not empty"
    return _union(str, list, dict, wanted=wanted, shape=shape, required=required)


def mapping_or_array(*, required: bool = False) -> fields.Field[Any]:
    shape = {"type": ["array", "object"], "minItems": 1, "minProperties": 1}
    return _union(dict, list, wanted="an array or an object, not empty", shape=shape, required=required)


def _union(*types: type, wanted: str, shape: dict[str, Any], required: bool) -> fields.Field[Any]:
    known = OneOfTypes(*types, error=f"must be {wanted}")
    return fields.Raw(validate=known, **_options(wanted, shape, required=required))


def unsupported(why: str) -> fields.Field[Any]:
    """A field of the vendor's API that the bridge does not support and must not ignore."""
    return fields.Raw(validate=Unsupported(why), **_options("left out", {"type": "null"}))
