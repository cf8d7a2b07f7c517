"""The result that an agent hands in with the tool `complete_task`, checked against its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from bridge.agents.json_schema import problems
from bridge.gemini.types import FunctionCall, FunctionDeclaration, JsonObject

NAME = "complete_task"
OUTPUT = "output"
INSTRUCTION = (
    f"When you are done, call the tool {NAME} with your result as {OUTPUT}. It is the only way to finish: "
    "nobody reads what you write elsewhere. Call it alone."
)
REMINDER = f"You must call {NAME} to finish. Call it now, with the best result that you have."


class TaskOutput:
    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema

    @property
    def declaration(self) -> FunctionDeclaration:
        parameters = {"type": "object", "properties": {OUTPUT: self._own_schema}, "required": [OUTPUT]}
        definitions = {key: self._schema[key] for key in ("$defs", "definitions") if key in self._schema}
        return FunctionDeclaration(
            NAME, "Hands in the result and ends the task.", {**parameters, **definitions}
        )

    @property
    def _own_schema(self) -> Mapping[str, Any]:
        """Without definitions, which references look for at the top."""
        return {key: value for key, value in self._schema.items() if key not in ("$defs", "definitions")}

    def problem(self, call: FunctionCall) -> str:
        """What is wrong with the result; empty if it fits."""
        arguments = call.args or {}
        if OUTPUT not in arguments:
            return f"The argument {OUTPUT!r} is missing."
        wrong = problems(arguments[OUTPUT], self._schema)
        return f"The result does not fit its schema: {'; '.join(wrong)}. Try again." if wrong else ""

    def text(self, call: FunctionCall) -> str:
        """The result as the answer's text."""
        value = (call.args or {})[OUTPUT]
        return value if isinstance(value, str) else orjson.dumps(value).decode()
