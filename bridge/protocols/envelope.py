"""The schema of a request's body: marshmallow's, for large vocabularies of which little is used."""

from __future__ import annotations

from typing import Any

from marshmallow import INCLUDE, Schema, ValidationError, missing
from marshmallow.exceptions import SCHEMA


class Envelope(Schema):
    """Unknown fields pass: agents add some every month."""

    class Meta:
        unknown = INCLUDE

    def load(self, data: Any, **_options: Any) -> Any:
        """What is given is checked and handed on as it is. A protocol knows dozens of fields, and a request
        has five of them; marshmallow itself would visit all, at the cost of the whole conversion."""
        if not isinstance(data, dict):
            raise ValidationError({SCHEMA: ["must be an object"]})
        for name, field in self.load_fields.items():
            if name in data or field.required:
                try:
                    field.deserialize(data.get(name, missing), name, data)
                except ValidationError as error:
                    raise ValidationError({name: error.messages}) from None
        return data
