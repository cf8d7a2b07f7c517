"""What the bridge does with each field of a request that a vendor documents.

Each field is put into a request, and the request is converted with the field and without it. Every value that
the schema offers is tried, and the best outcome counts. A field that changes nothing is dropped in silence.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

from checked_answers import schemas
from marshmallow import ValidationError
from vendor_schemas import Schema, VendorSchemas

from bridge.errors import BridgeError
from bridge.protocols import PROTOCOLS, openai_embeddings
from bridge.protocols.base import Caller, Protocol
from bridge.protocols.embedding import ConvertedEmbedding, Embedding
from bridge.protocols.openai_responses.options import ResponsesOptions

Wrap = Callable[[Any], Any]

DEEPEST = 9
MOST_VALUES = 12
BYTES = "iVBORw0KGgo="
OBJECT_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OTHER_SCHEMA = {"type": "object", "properties": {}}

DECLARED, UNDECLARED = "get_weather", "look"  #: functions that the request declares, and does not

#: Values that the bridge and the vendor accept, by the name of the field; any other text is just a text.
TEXTS: Mapping[str, str] = {
    "image_url": f"data:image/png;base64,{BYTES}",
    "url": f"data:image/png;base64,{BYTES}",
    "file_url": f"data:application/pdf;base64,{BYTES}",
    "file_data": BYTES,
    "filename": "notes.txt",
    "data": BYTES,
    "media_type": "image/png",
    "arguments": '{"city":"Rome"}',
    "name": DECLARED,
    "tool_use_id": "call_1",
    "call_id": "call_1",
}
#: Second values of those whose form matters.
OTHER_TEXTS: Mapping[str, str] = {
    "image_url": f"data:image/jpeg;base64,{BYTES}",
    "url": f"data:image/jpeg;base64,{BYTES}",
    "file_url": f"data:text/plain;base64,{BYTES}",
    "file_data": f"data:text/plain;base64,{BYTES}",
    "data": "AAAA",
    "media_type": "image/jpeg",
    "arguments": '{"city":"Oslo"}',
    "name": "get_time",
}
#: Fields that an object needs although its document does not require them, by its kind or by its own name.
NEEDED: Mapping[str, Sequence[str]] = {
    "input_image": ["image_url"],
    "input_file": ["file_data"],
    "file": ["file_data"],
    "json_schema": ["schema"],
    "function_call_output": ["call_id", "name"],
    "tool_search_call": ["call_id"],
    "tool_search_output": ["call_id"],
}
#: Objects whose schema is open.
OBJECTS: Mapping[str, Mapping[str, Any]] = {
    "parameters": OBJECT_SCHEMA,
    "schema": OBJECT_SCHEMA,
    "input_schema": OBJECT_SCHEMA,
    "input": {"city": "Rome"},
    "metadata": {"ticket": "1"},
    "logit_bias": {"50256": -100},
    "tools": {"type": "function", "name": DECLARED},
}
OTHER_OBJECTS: Mapping[str, Mapping[str, Any]] = {
    "tools": {"type": "function", "name": "get_time"},
    "parameters": OTHER_SCHEMA,
    "schema": OTHER_SCHEMA,
    "input_schema": OTHER_SCHEMA,
}
#: Fields that hold declarations of tools, which must have names of their own.
DECLARATIONS = ("tools", "functions", "additional_tools")


class Outcome(IntEnum):
    """What became of a field, the best thing last."""

    SILENT = 0  #: dropped, and nobody is told
    REPEATED = 1  #: the answer repeats it, and that is all
    LOST = 2  #: dropped, and counted
    REFUSED = 3
    MAPPED = 4


class Field(NamedTuple):
    path: str
    outcome: Outcome
    detail: str = ""  #: the loss or the refusal


class Converted(NamedTuple):
    error: str | None
    losses: tuple[str, ...] = ()
    meaning: str = ""
    repeated: str = ""


class Probe(NamedTuple):
    """One protocol's request in one document."""

    protocol: Protocol | Embedding
    document: str
    component: str
    body: Mapping[str, Any]  #: the smallest request that is converted

    def convert(self, body: Mapping[str, Any]) -> Converted:
        try:
            asked = self.protocol.to_gemini(self.protocol.schema.load(copy.deepcopy(body)), Caller())
        except (BridgeError, ValidationError) as error:
            return Converted(str(error))
        if isinstance(asked, ConvertedEmbedding):
            return Converted(None, meaning=repr(asked))
        options, echo = asked.options, ""
        if isinstance(options, ResponsesOptions):
            options, echo = replace(options, echo={}), repr(options.echo)
        hosted = asked.hosted and (asked.hosted, [server.headers for server in asked.hosted.servers])
        meaning = repr((asked.request, asked.stream, options, asked.headers, hosted, self._stored(body)))
        return Converted(None, asked.losses, meaning, echo)

    def _stored(self, body: Mapping[str, Any]) -> tuple[Any, ...]:
        storing = self.protocol.storing if isinstance(self.protocol, Protocol) else None
        if storing is None:
            return ()
        return storing.should_store(body), storing.previous_id(body), storing.is_background(body)


class Walk:
    """All fields of one request, in the order of the document."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._schemas: VendorSchemas = schemas(probe.document)

        #: Values of enumerations that change nothing, of fields that have values that do.
        self.silent_values: set[str] = set()

    def fields(self) -> list[Field]:
        root = {"$ref": f"#/components/schemas/{self._probe.component}"}
        found: dict[str, Field] = {}
        for schema in self._objects(root):
            for field in self._of_object(schema, "", dict, self._probe.body, 0):
                if field.path not in found or field.outcome > found[field.path].outcome:
                    found[field.path] = field
        return list(found.values())

    def _of_object(
        self, schema: Schema, path: str, wrap: Wrap, least: Mapping[str, Any], depth: int
    ) -> Iterator[Field]:
        for name, inner in self._schemas.properties(schema).items():
            if name != "type" and not self._schemas.is_tag(inner):
                place = f"{path}.{name}" if path else name
                yield from self._of_field(inner, name, place, wrap, least, depth)

    def _of_field(
        self, schema: Schema, name: str, place: str, wrap: Wrap, least: Mapping[str, Any], depth: int
    ) -> list[Field]:
        """The field itself, and those of the objects it holds where they say more."""
        rest = {key: value for key, value in least.items() if key != name}

        def with_field(value: Any) -> Any:
            return wrap({**rest, name: value})

        whole = self._judged(place, wrap(least), map(with_field, self._values(schema, name, depth)))
        if whole.outcome > Outcome.REPEATED:
            self._note_silent_values(schema, place, wrap(least), with_field, least.get(name))
        inner = list(self._inside(schema, name, place, with_field, wrap(least), depth + 1))
        return inner if any(field.outcome is not Outcome.SILENT for field in inner) else [whole]

    def _judged(self, place: str, without: Any, requests: Iterable[Any]) -> Field:
        """The best that becomes of any of its values."""
        before = self._probe.convert(without)
        fields = [self._compared(place, before, self._probe.convert(each)) for each in requests]
        return max(fields, key=lambda field: field.outcome, default=Field(place, Outcome.SILENT))

    def _compared(self, place: str, before: Converted, after: Converted) -> Field:
        if after.error is not None:
            return Field(place, Outcome.REFUSED, after.error)
        if more := [loss for loss in after.losses if loss not in before.losses]:
            return Field(place, Outcome.LOST, ", ".join(more))
        if after.meaning != before.meaning:
            return Field(place, Outcome.MAPPED)
        return Field(place, Outcome.REPEATED if after.repeated != before.repeated else Outcome.SILENT)

    def _note_silent_values(
        self, schema: Schema, place: str, without: Any, with_field: Wrap, needed: Any
    ) -> None:
        before = self._probe.convert(without)
        kinds = [self._schemas.merged(each) for each in self._schemas.flat(schema)]
        for value in (
            value for kind in kinds for value in kind.get("enum", ()) if value not in (None, needed)
        ):
            field = self._compared(place, before, self._probe.convert(with_field(value)))
            if field.outcome <= Outcome.REPEATED:
                self.silent_values.add(f"{place}={value}")

    def _inside(
        self, schema: Schema, name: str, path: str, wrap: Wrap, without: Any, depth: int
    ) -> Iterator[Field]:
        """The fields of the objects that a field holds, directly or in a list.

        The walk does not enter an object that the bridge refuses, counts or drops as a whole.
        """
        for each, in_list in self._held(schema) if depth <= DEEPEST else ():
            tag = self._schemas.tag_of(each)
            place = f"{path}{'[]' if in_list else ''}{f'({tag})' if tag else ''}"
            least = self._least(each, name, depth)
            if not path.startswith("tool_choice") and any(each in place for each in DECLARATIONS):
                least = _renamed(least)
            listed = self._probe.body.get(path, []) if in_list else []

            def inner(value: Any, listed: Sequence[Any] = listed, in_list: bool = in_list) -> Any:
                return wrap([*listed, value] if in_list else value)

            kind = Field(place, Outcome.MAPPED)
            if inner(least) != without:
                kind = self._compared(place, self._probe.convert(without), self._probe.convert(inner(least)))
            if tag is not None:
                yield kind
            if kind.outcome is Outcome.MAPPED or (tag is None and kind.outcome < Outcome.LOST):
                yield from self._of_object(each, place, inner, least, depth)

    def _held(self, schema: Schema) -> Iterator[tuple[Schema, bool]]:
        for each in self._schemas.flat(schema):
            if (items := self._schemas.items(each)) is not None:
                yield from ((inner, True) for inner in self._objects(items))
            elif self._schemas.properties(each):
                yield each, False

    def _objects(self, schema: Schema) -> Iterator[Schema]:
        return (each for each in self._schemas.flat(schema) if self._schemas.properties(each))

    # --- values --------------------------------------------------------------------------------------

    def _values(self, schema: Schema, name: str, depth: int) -> list[Any]:
        values: list[Any] = []
        for each in self._schemas.flat(schema) if depth <= DEEPEST else ():
            values += [value for value in self._simple(each, name, depth) if value not in (None, *values)]
        return values[:MOST_VALUES]

    def _simple(self, schema: Schema, name: str, depth: int) -> list[Any]:
        target = self._schemas.merged(schema)
        if "const" in target:
            return [target["const"]]
        if "enum" in target:
            return sorted(target["enum"], key=lambda each: each != "auto")
        if self._schemas.properties(schema):
            return [self._least(schema, name, depth + 1)]
        if (items := self._schemas.items(schema)) is not None:
            return [*([value] for value in self._values(items, name, depth + 1)), []]
        return _PLAIN.get(str(target.get("type")), _opened)(target, name)

    def _least(self, schema: Schema, name: str, depth: int) -> dict[str, Any]:
        """The smallest object of a kind."""
        properties, required = self._schemas.properties(schema), self._schemas.required(schema)
        required += [*NEEDED.get(self._schemas.tag_of(schema) or "", ()), *NEEDED.get(name, ())]
        return {each: self._first(properties[each], each, depth) for each in required if each in properties}

    def _first(self, schema: Schema, name: str, depth: int) -> Any:
        kinds = {self._schemas.merged(each).get("type") for each in self._schemas.flat(schema)}
        if name in OBJECTS and "object" in kinds:
            return OBJECTS[name]
        return next(iter(self._values(schema, name, depth)), None)


def _renamed(value: Any) -> Any:
    """A tool under a name that is not declared yet."""
    if isinstance(value, dict):
        return {name: _renamed(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each) for each in value]
    return UNDECLARED if value == DECLARED else value


def _texts(_schema: Schema, name: str) -> list[Any]:
    return [TEXTS.get(name, f"some {name}"), OTHER_TEXTS.get(name, f"other {name}"), f"another_{name}"]


def _numbers(schema: Schema, _name: str) -> list[Any]:
    lowest = schema.get("minimum", 0)
    return [lowest, lowest + 1]


def _opened(_schema: Schema, name: str) -> list[Any]:
    return [dict(OBJECTS.get(name, {"key": "value"})), dict(OTHER_OBJECTS.get(name, {"other": "value"}))]


_PLAIN: Mapping[str, Callable[[Schema, str], list[Any]]] = {
    "string": _texts,
    "number": _numbers,
    "integer": _numbers,
    "boolean": lambda _schema, _name: [False, True],
    "null": lambda _schema, _name: [],
}

_BY_NAME = {protocol.name: protocol for protocol in PROTOCOLS}
_USER = {"role": "user", "content": "Hi"}
_FUNCTIONS = [{"name": name, "parameters": OBJECT_SCHEMA} for name in (DECLARED, "get_time")]
_MESSAGES: Mapping[str, Any] = {
    "model": "claude",
    "max_tokens": 100,
    "messages": [_USER],
    "tools": [{"name": each["name"], "input_schema": OBJECT_SCHEMA} for each in _FUNCTIONS],
}
PROBES: Mapping[str, Probe] = {
    "responses": Probe(
        _BY_NAME["openai_responses"],
        "openai",
        "CreateResponse",
        {"model": "gpt", "input": [_USER], "tools": [{"type": "function", **each} for each in _FUNCTIONS]},
    ),
    "chat": Probe(
        _BY_NAME["openai_chat"],
        "openai",
        "CreateChatCompletionRequest",
        {
            "model": "gpt",
            "messages": [_USER],
            "tools": [{"type": "function", "function": each} for each in _FUNCTIONS],
            "stream": True,
        },
    ),
    "completions": Probe(
        _BY_NAME["openai_completions"],
        "openai",
        "CreateCompletionRequest",
        {"model": "gpt", "prompt": "Hi", "stream": True},
    ),
    "embeddings": Probe(
        openai_embeddings.EMBEDDING, "openai", "CreateEmbeddingRequest", {"model": "gpt", "input": "Hi"}
    ),
    "messages": Probe(_BY_NAME["anthropic_messages"], "anthropic_sdk", "MessageCreateParams", _MESSAGES),
    "messages beta": Probe(
        _BY_NAME["anthropic_messages"], "anthropic_beta_sdk", "MessageCreateParams", _MESSAGES
    ),
}


class Walked(NamedTuple):
    fields: list[Field]
    silent_values: set[str]


@cache
def walked(name: str) -> Walked:
    """What becomes of the fields of one of the probes, and of the values of its enumerations."""
    walk = Walk(PROBES[name])
    return Walked(walk.fields(), walk.silent_values)


def fields_of(name: str) -> list[Field]:
    return walked(name).fields
