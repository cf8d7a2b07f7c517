"""Repairs for requests that Gemini rejected, one function for each kind of rejection.

Each repair drops something so that Gemini can answer: signatures, details of a schema, the settings for
thinking, sampling, service tier or `store`. A function returns the same request object if there is nothing to
drop.
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
from bridge.gemini.losses import SAMPLING_NOT_SENT, SCHEMA_DETAILS, THINKING_AMOUNT
from bridge.gemini.service_tier import FLEX
from bridge.gemini.signatures import add_signatures
from bridge.gemini.types import FunctionDeclaration, GenerateRequest, JsonObject, Tool

#: Below this depth a schema becomes a plain object.
MAX_DEPTH = 8
_KEPT_KEYWORDS = ("type", "description", "properties", "required", "items", "anyOf")
_MAX_CHOICES_LENGTH = 500

#: Fields that control how the model samples its output.
SAMPLING = ("temperature", "topP", "topK", "presencePenalty", "frequencyPenalty")
_THINKING_AMOUNT = ("thinkingLevel", "thinkingBudget")


class _NoSignatures:
    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        pass

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        return {}


def without_signatures(request: GenerateRequest) -> GenerateRequest:
    """The request without signatures, with Google's documented dummy where Gemini requires one."""
    bare = tuple(
        replace(content, parts=tuple(replace(part, signature=None) for part in content.parts))
        for content in request.contents
    )
    contents = add_signatures(bare, "", required=True, store=_NoSignatures())
    return request if contents == request.contents else replace(request, contents=contents)


def without_thinking_amount(request: GenerateRequest) -> GenerateRequest:
    """The request without a thinking level or budget. It still asks for thoughts."""
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
    """The request at the standard tier, if the flex tier has no capacity for it."""
    return without_service_tier(request) if request.service_tier == FLEX else request


def _without_generation_fields(request: GenerateRequest, fields: Collection[str]) -> GenerateRequest:
    """The request without these fields of `generationConfig`."""
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
    """The values of an enumeration as text, for models that reject the keyword itself."""
    values = schema["enum"] if isinstance(schema.get("enum"), list) else []
    return f"One of: {', '.join(map(str, values))}"[:_MAX_CHOICES_LENGTH] if values else ""


class Repair(NamedTuple):
    apply: Callable[[GenerateRequest], GenerateRequest]
    #: The fact that an accepted repair proves. Later requests are then repaired before they are sent.
    fact: str = ""
    for_all_models: bool = False  #: the fact is about the upstream, not about one model
    note: str = ""  #: counted in the metrics, if the repair changes what the answer costs
    loss: str = ""  #: the name of the client's setting that the repair drops


#: The repairs to try after each kind of rejection, in this order.
REPAIRS: Mapping[type[BridgeError], tuple[Repair, ...]] = {
    SignaturesRefused: (Repair(without_signatures),),
    SchemaRefused: (Repair(with_simple_schemas, loss=SCHEMA_DETAILS),),
    ThinkingRefused: (
        Repair(without_thinking_amount, "thinking_amount_refused", loss=THINKING_AMOUNT),
        Repair(without_thinking, "thinking_refused"),
    ),
    SamplingRefused: (Repair(without_sampling, "sampling_refused", loss=SAMPLING_NOT_SENT),),
    StoreRefused: (Repair(without_store, "store_refused", for_all_models=True),),
    ServiceTierRefused: (Repair(without_service_tier, note="service_tier.refused"),),
}
_FLEX_SHED = Repair(at_standard_tier, note="service_tier.flex_shed")
#: The same for a client that asked for the service tier `auto`.
REPAIRS_FOR_AUTO_TIER: Mapping[type[BridgeError], tuple[Repair, ...]] = {
    **REPAIRS,
    UpstreamOverloaded: (_FLEX_SHED,),
    UpstreamRateLimited: (_FLEX_SHED,),
}

#: The repairs whose facts are stored for later requests.
REMEMBERED_REPAIRS = tuple(repair for repairs in REPAIRS.values() for repair in repairs if repair.fact)
