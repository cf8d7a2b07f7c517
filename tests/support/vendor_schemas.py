"""Checks a value against a vendor's schema and says what is wrong in it and what the vendor does not know.

A JSON Schema library stops at an alternative that does not fit and accepts every unknown property. This walk
chooses the alternative that the value is meant to be, and reports unknown properties too. The library checks
the rules of a single value: types, enums, limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs

Schema = Mapping[str, Any]

FOLDER = Path(__file__).parent.parent / "specs"
REFERENCES = ("#/components/schemas/", "#/$defs/")
UNKNOWN = "unknown"  #: the rule that an unknown property breaks
#: Keywords that the walk follows itself. All others are rules of a single value.
FOLLOWED = frozenset(
    {"$ref", "$defs", "properties", "required", "items", "additionalProperties", "allOf", "anyOf", "oneOf"}
)
SHOWN = 80  #: characters of a value in a finding


class Finding(NamedTuple):
    component: str  #: the nearest schema that has a name
    path: str  #: of the value, from that component on
    rule: str
    place: str  #: of the value, from the body on
    detail: str

    @property
    def cause(self) -> tuple[str, str, str]:
        """What findings of the same origin have in common."""
        return self.component, self.path, self.rule

    def __str__(self) -> str:
        return f"{self.place or '(body)'}: {self.rule}: {self.detail} [{self.component}]"


class Place(NamedTuple):
    """Where the walk is: in the body, and in the nearest named component."""

    body: str
    component: str
    path: str = ""

    def inner(self, step: str) -> Place:
        return Place(_joined(self.body, step), self.component, _joined(self.path, step))

    def entered(self, component: str) -> Place:
        return Place(self.body, component)

    def finding(self, rule: str, detail: str) -> Finding:
        return Finding(self.component, self.path, rule, self.body, detail)


class Node(NamedTuple):
    """Schemas that a value must all satisfy, without references and alternatives."""

    schemas: Sequence[Schema]
    place: Place
    findings: Sequence[Finding] = ()  #: of alternatives, none of which the value can be


class Alternative(NamedTuple):
    schema: Schema
    kinds: Sequence[Any]  #: checks of the JSON type
    tags: Mapping[str, Sequence[str | None]]  #: the properties that say which kind of object it is

    def is_kind(self, value: Any) -> bool:
        return all(kind.is_valid(value) for kind in self.kinds)

    def wrong_tag(self, value: Any) -> str | None:
        """The first property that names another kind of object than this one is for."""
        if not isinstance(value, dict):
            return None
        wrong = (name for name, allowed in self.tags.items() if name in value and value[name] not in allowed)
        return next(wrong, None)


class VendorSchemas:
    """The named schemas of one document."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self.components = components
        self._known: dict[int, list[Alternative]] = {}
        self._wholes: dict[str, Any] = {}

    def findings(self, component: str, value: Any) -> list[Finding]:
        return list(self._check([{"$ref": REFERENCES[0] + component}], value, Place("", component)))

    def is_valid(self, component: str, value: Any) -> bool:
        """As the library judges it, which knows nothing of unknown properties."""
        return self._whole(component).is_valid(value)

    def _whole(self, component: str) -> Any:
        if component not in self._wholes:
            schema = {"$ref": REFERENCES[0] + component, "components": {"schemas": self.components}}
            self._wholes[component] = jsonschema_rs.Draft202012Validator(schema)
        return self._wholes[component]

    # --- what a schema holds ---------------------------------------------------------------------------

    def flat(self, schema: Schema) -> list[Schema]:
        """The schema's alternatives, or the schema itself."""
        return list(self._flat([schema]))

    def merged(self, schema: Schema) -> Schema:
        """The rules of the schema and of all its parts."""
        return {name: rule for part in self._parts(schema) for name, rule in part.items()}

    def properties(self, schema: Schema) -> dict[str, Schema]:
        parts = self._parts(schema)
        return {name: inner for part in parts for name, inner in part.get("properties", {}).items()}

    def required(self, schema: Schema) -> list[str]:
        return [name for part in self._parts(schema) for name in part.get("required", ())]

    def items(self, schema: Schema) -> Schema | None:
        items = self.merged(schema).get("items")
        return items if isinstance(items, Mapping) else None

    def is_tag(self, schema: Schema) -> bool:
        """Whether a property has one text only."""
        return bool(self._tag(schema))

    def tag_of(self, schema: Schema) -> str | None:
        """The value by which an object's kind is known; the first, if it has several names."""
        properties = self.properties(schema)
        for name in ("type", "role"):
            target = self._target(properties.get(name, {}))
            values = [target["const"]] if "const" in target else target.get("enum", ())
            if values:
                return str(values[0])
        return None

    # --- the walk ------------------------------------------------------------------------------------

    def _check(self, schemas: Sequence[Schema], value: Any, place: Place) -> Iterator[Finding]:
        node = self._resolved(schemas, value, place)
        yield from node.findings
        for schema in node.schemas:
            yield from _rules(schema, value, node.place)
        if isinstance(value, dict):
            yield from self._check_object(node, value)
        elif isinstance(value, list):
            items = [schema["items"] for schema in node.schemas if isinstance(schema.get("items"), Mapping)]
            for each in value if items else ():
                yield from self._check(items, each, node.place.inner("[]"))

    def _check_object(self, node: Node, value: Mapping[str, Any]) -> Iterator[Finding]:
        for name in dict.fromkeys(name for schema in node.schemas for name in schema.get("required", ())):
            if name not in value:
                yield node.place.inner(name).finding("required", "is missing")
        for name, each in value.items():
            inner = node.place.inner(name)
            known = [
                schema["properties"][name] for schema in node.schemas if name in schema.get("properties", ())
            ]
            if known:
                yield from self._check(known, each, inner)
            elif others := _others(node.schemas):
                yield from self._check([other for other in others if isinstance(other, Mapping)], each, inner)
            elif any("properties" in schema for schema in node.schemas):
                yield inner.finding(UNKNOWN, _shown(each))

    # --- references and alternatives -----------------------------------------------------------------

    def _resolved(self, schemas: Sequence[Schema], value: Any, place: Place) -> Node:
        plain: list[Schema] = []
        findings: list[Finding] = []
        waiting = [(schema, True, False) for schema in schemas]
        while waiting:
            schema, names_place, named = waiting.pop(0)
            plain.append(schema)
            if (reference := schema.get("$ref")) is not None:
                name = _name_in(reference)
                place = place.entered(name) if names_place else place
                waiting.append((self.components[name], names_place, True))
            waiting += [(part, names_place and not named, False) for part in schema.get("allOf", ())]
            if alternatives := schema.get("anyOf") or schema.get("oneOf"):
                chosen = self._chosen(alternatives, value, place)
                if isinstance(chosen, Finding):
                    findings.append(chosen)
                else:
                    waiting.append((chosen, names_place, named))
        return Node(plain, place, findings)

    def _chosen(self, alternatives: Sequence[Schema], value: Any, place: Place) -> Schema | Finding:
        """The alternative of the value's JSON type and tag that has the fewest findings."""
        fitting = [each for each in self._alternatives(alternatives) if each.is_kind(value)]
        if not fitting:
            return place.finding("type", f"{_shown(value)} is of none of the types allowed")
        tagged = [each.schema for each in fitting if each.wrong_tag(value) is None]
        if not tagged:
            tag = str(fitting[0].wrong_tag(value))
            return place.inner(tag).finding(f"anyOf:{value[tag]}", "no alternative has this value here")
        if len(tagged) == 1:
            return tagged[0]
        return min(tagged, key=lambda schema: self._cost(schema, value, place))

    def _cost(self, schema: Schema, value: Any, place: Place) -> tuple[int, int]:
        findings = list(self._check([schema], value, place))
        unknown = sum(finding.rule == UNKNOWN for finding in findings)
        return len(findings) - unknown, unknown

    def _alternatives(self, schemas: Sequence[Schema]) -> list[Alternative]:
        key = id(schemas)  # schemas live as long as their document
        if key not in self._known:
            self._known[key] = [self._alternative(schema) for schema in self._flat(schemas)]
        return self._known[key]

    def _alternative(self, schema: Schema) -> Alternative:
        parts = list(self._parts(schema))
        rules = [{"type": part["type"]} for part in parts if "type" in part]
        if not rules and any("properties" in part for part in parts):
            rules = [{"type": "object"}]
        tags = {name: tag for name, inner in self.properties(schema).items() if (tag := self._tag(inner))}
        return Alternative(schema, [_validator(_key(rule)) for rule in rules], tags)

    def _flat(self, alternatives: Iterable[Schema]) -> Iterator[Schema]:
        """Alternatives of alternatives are alternatives. References keep the names."""
        for schema in alternatives:
            inner = self._target(schema)
            nested = inner.get("anyOf") or inner.get("oneOf")
            if nested and "properties" not in inner and "allOf" not in inner:
                yield from self._flat(nested)
            else:
                yield schema

    def _target(self, schema: Schema) -> Schema:
        while (reference := schema.get("$ref")) is not None:
            schema = self.components[_name_in(reference)]
        return schema

    def _parts(self, schema: Schema) -> Iterator[Schema]:
        target = self._target(schema)
        yield target
        for part in target.get("allOf", ()):
            yield from self._parts(part)

    def _tag(self, schema: Schema) -> list[str | None]:
        """The values of a property that takes one text only, or that and null; of others none."""
        flat = [self._target(each) for each in self._flat([schema])]
        texts = [
            value for each in flat for value in ([each["const"]] if "const" in each else each.get("enum", ()))
        ]
        nulls = [None for each in flat if each.get("type") == "null"]
        return [*texts, *nulls] if len(texts) == 1 and len(texts) + len(nulls) == len(flat) else []


def _others(schemas: Sequence[Schema]) -> list[Any]:
    """What is said of properties that have no schema of their own; `False` says nothing here."""
    return [each for schema in schemas if (each := schema.get("additionalProperties")) not in (None, False)]


def _rules(schema: Schema, value: Any, place: Place) -> Iterator[Finding]:
    rules = {name: rule for name, rule in schema.items() if name not in FOLLOWED}
    if rules:
        for error in _validator(_key(rules)).iter_errors(value):
            yield place.finding(str(error.schema_path[-1]), f"{_shown(value)}; allowed: {_allowed(rules)}")


def _allowed(rules: Schema) -> str:
    return _shown(
        {name: rule for name, rule in rules.items() if name not in ("title", "description", "default")}
    )


def _key(rules: Schema) -> str:
    return json.dumps(rules, sort_keys=True)


@cache
def _validator(rules: str) -> Any:
    return jsonschema_rs.Draft202012Validator(json.loads(rules))


def _name_in(reference: str) -> str:
    for prefix in REFERENCES:
        reference = reference.removeprefix(prefix)
    return reference


def _joined(path: str, step: str) -> str:
    return f"{path}{step}" if step == "[]" or not path else f"{path}.{step}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


@cache
def document(name: str) -> VendorSchemas:
    """A document as `tests/specs/extract.py` left it."""
    return VendorSchemas(json.loads((FOLDER / f"{name}.json").read_text())["components"])
