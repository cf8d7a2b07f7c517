"""What can be mended in a request that Gemini refused, one function for each kind of refusal.

Each gives up something for the sake of an answer: signatures, what a schema says beyond its shape, the wish
for thinking, sampling or a service tier, the wish that Google keep nothing. A function returns the very
request it was given if there is nothing to give up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from bridge.errors import (
    BridgeError,
    SamplingRefused,
    SchemaRefused,
    ServiceTierRefused,
    SignaturesRefused,
    StoreRefused,
    ThinkingRefused,
    UpstreamOverloaded,
    UpstreamRateLimited,
)
from bridge.gemini.service_tier import FLEX
from bridge.gemini.signatures import add_signatures
from bridge.gemini.types import FunctionDeclaration, GenerateRequest, JsonObject, Tool

#: Deeper than this a schema says only that there is an object.
MAX_DEPTH = 8
_KEPT_KEYWORDS = ("type", "description", "properties", "required", "items", "anyOf")
_MAX_CHOICES_LENGTH = 500

#: Fields that steer how a model picks its words.
SAMPLING = ("temperature", "topP", "topK", "presencePenalty", "frequencyPenalty")
_THINKING_AMOUNT = ("thinkingLevel", "thinkingBudget")


class _EmptySignatureStore:
    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        pass

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        return {}


def without_signatures(request: GenerateRequest) -> GenerateRequest:
    """All signatures gone, and the documented dummy where Gemini insists on one."""
    bare = tuple(
        replace(content, parts=tuple(replace(part, signature=None) for part in content.parts))
        for content in request.contents
    )
    contents = add_signatures(bare, "", required=True, store=_EmptySignatureStore())
    return request if contents == request.contents else replace(request, contents=contents)


def without_thinking_amount(request: GenerateRequest) -> GenerateRequest:
    """Thoughts are still asked for; how much to think is left to the model."""
    config = request.generation.get("thinkingConfig") or {}
    kept = {key: value for key, value in config.items() if key not in _THINKING_AMOUNT}
    if kept == config:
        return request
    return replace(request, generation={**request.generation, "thinkingConfig": kept})


def without_thinking(request: GenerateRequest) -> GenerateRequest:
    return _without_generation_fields(request, ("thinkingConfig",))


def without_sampling(request: GenerateRequest) -> GenerateRequest:
    return _without_generation_fields(request, SAMPLING)


def without_store(request: GenerateRequest) -> GenerateRequest:
    return request if request.store is None else replace(request, store=None)


def without_service_tier(request: GenerateRequest) -> GenerateRequest:
    return request if request.service_tier is None else replace(request, service_tier=None)


def at_standard_tier(request: GenerateRequest) -> GenerateRequest:
    """Of a request that the flex tier has no room for."""
    return without_service_tier(request) if request.service_tier == FLEX else request


def _without_generation_fields(request: GenerateRequest, fields: Collection[str]) -> GenerateRequest:
    """Without these fields of the generation's settings."""
    kept = {key: value for key, value in request.generation.items() if key not in fields}
    return request if len(kept) == len(request.generation) else replace(request, generation=kept)


def with_simple_schemas(request: GenerateRequest) -> GenerateRequest:
    tools = tuple(
        Tool(tuple(_simplify_function(each) for each in tool.functions), tool.extra) for tool in request.tools
    )
    return request if tools == request.tools else replace(request, tools=tools)


def _simplify_function(function: FunctionDeclaration) -> FunctionDeclaration:
    if function.schema is None:
        return function
    return replace(function, schema=_simplify(function.schema, 0))


def _simplify(schema: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return {"type": "object"}
    simple = {key: _simplify_keyword(key, schema[key], depth + 1) for key in _KEPT_KEYWORDS if key in schema}
    if choices := _describe_choices(schema):
        simple["description"] = " ".join(filter(None, (simple.get("description"), choices)))
    if simple.get("type") == "array":
        simple.setdefault("items", {"type": "string"})
    return simple


def _simplify_keyword(key: str, value: Any, depth: int) -> Any:
    if key == "properties" and isinstance(value, Mapping):
        return {name: _simplify(child, depth) for name, child in value.items()}
    if key == "items":
        return _simplify(value, depth)
    if key == "anyOf" and isinstance(value, list):
        return [_simplify(child, depth) for child in value]
    if key == "type" and isinstance(value, list):
        return next((each for each in value if each != "null"), "string")
    return value


def _describe_choices(schema: JsonObject) -> str:
    """What an enumeration allowed, in words: a model that cannot be bound can still be told."""
    values = schema["enum"] if isinstance(schema.get("enum"), list) else []
    return f"One of: {', '.join(map(str, values))}"[:_MAX_CHOICES_LENGTH] if values else ""


class Repair(NamedTuple):
    apply: Callable[[GenerateRequest], GenerateRequest]
    #: What is learnt when the mended request is accepted; later requests are mended before they are sent.
    fact: str = ""
    for_all_models: bool = False  #: the fact holds for all models
    note: str = ""  #: what is counted, where the answer will cost otherwise


#: What to try, in this order, after each kind of refusal.
REPAIRS: Mapping[type[BridgeError], tuple[Repair, ...]] = {
    SignaturesRefused: (Repair(without_signatures),),
    SchemaRefused: (Repair(with_simple_schemas),),
    ThinkingRefused: (
        Repair(without_thinking_amount, "thinking_amount_refused"),
        Repair(without_thinking, "thinking_refused"),
    ),
    SamplingRefused: (Repair(without_sampling, "sampling_refused"),),
    StoreRefused: (Repair(without_store, "store_refused", for_all_models=True),),
    ServiceTierRefused: (Repair(without_service_tier, note="service_tier.refused"),),
}
_FLEX_SHED = Repair(at_standard_tier, note="service_tier.flex_shed")
#: The same for a client that left the service tier to the bridge.
REPAIRS_FOR_AUTO_TIER: Mapping[type[BridgeError], tuple[Repair, ...]] = {
    **REPAIRS,
    UpstreamOverloaded: (_FLEX_SHED,),
    UpstreamRateLimited: (_FLEX_SHED,),
}

#: The repairs that are remembered.
REMEMBERED_REPAIRS = tuple(repair for repairs in REPAIRS.values() for repair in repairs if repair.fact)
