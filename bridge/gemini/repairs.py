"""Repairs for requests that Gemini rejected, one function for each kind of rejection.

Each repair drops something so that Gemini can answer: signatures, details of a schema, Google's tools beside
functions, strict calls, the settings for thinking, sampling, service tier or `store`. A function returns the
same request object if there is nothing to drop.
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
    StrictCallsRefused,
    ThinkingRefused,
    ToolCombinationRefused,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
)
from bridge.gemini.google_tools import is_combined, without_google_tools, without_server_tools
from bridge.gemini.losses import (
    SAMPLING_NOT_SENT,
    SCHEMA_DETAILS,
    SEARCH_BESIDE_FUNCTIONS,
    STRICT_CALLS,
    THINKING_AMOUNT,
)
from bridge.gemini.service_tier import FLEX
from bridge.gemini.signatures import add_signatures
from bridge.gemini.strict_calls import without_strict_calls
from bridge.gemini.thinking import AMOUNTS
from bridge.gemini.types import FunctionDeclaration, GenerateRequest, JsonObject, Tool

#: Below this depth only the type of a schema is kept.
MAX_DEPTH = 8
_KEPT_KEYWORDS = ("type", "description", "properties", "required", "items", "anyOf")
_KEPT_AT_MAX_DEPTH = ("type", "description")
_KEYWORDS_OF_TYPE = {"object": ("properties", "required"), "array": ("items", "prefixItems")}
_MAX_CHOICES_LENGTH = 500

#: Fields that control how the model samples its output.
SAMPLING = ("temperature", "topP", "topK", "presencePenalty", "frequencyPenalty")


class _NoSignatures:
    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        pass

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        return {}


def without_signatures(request: GenerateRequest) -> GenerateRequest:
    """The request without signatures, with Google's documented dummy where Gemini requires one. Server-side
    calls are dropped, since no dummy is documented for them."""
    bare = tuple(
        replace(content, parts=tuple(replace(part, signature=None) for part in content.parts))
        for content in without_server_tools(request.contents)
    )
    contents = add_signatures(bare, "", required=True, store=_NoSignatures())
    return request if contents == request.contents else replace(request, contents=contents)


def without_thinking_amount(request: GenerateRequest) -> GenerateRequest:
    """The request without a thinking level or budget. It still asks for thoughts."""
    config = request.generation.get("thinkingConfig") or {}
    kept = {key: value for key, value in config.items() if key not in AMOUNTS}
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


def _simplify(schema: Any, depth: int) -> JsonObject:
    """The schema with few keywords. It accepts every value that the given schema accepts."""
    if not isinstance(schema, Mapping):
        return {}
    types = schema.get("type")
    if isinstance(types, list) and len(types) > 1:
        return _simplify_alternatives(schema, types, depth)
    if isinstance(types, list):
        schema = {**schema, "type": types[0] if types else None}
    kept = _KEPT_KEYWORDS if depth < MAX_DEPTH else _KEPT_AT_MAX_DEPTH
    simple = {
        key: _simplify_keyword(key, schema[key], depth + 1)
        for key in kept
        if key in schema and schema[key] is not None
    }
    if choices := _describe_choices(schema):
        simple["description"] = " ".join(filter(None, (simple.get("description"), choices)))
    if simple.get("type") == "array" and ("items" not in simple or "prefixItems" in schema):
        simple["items"] = {}
    elif "prefixItems" in schema:
        simple.pop("items", None)
    return simple


def _simplify_alternatives(schema: JsonObject, types: list[Any], depth: int) -> JsonObject:
    """One alternative for each type, with the keywords for values of this type."""
    about = {key: schema[key] for key in ("description", "enum") if key in schema}
    alternatives = [_simplify(_of_type(schema, each), depth + 1) for each in types]
    return {**_simplify(about, depth), "anyOf": alternatives}


def _of_type(schema: JsonObject, name: Any) -> JsonObject:
    kept = _KEYWORDS_OF_TYPE.get(name, ()) if isinstance(name, str) else ()
    return {"type": name, **{key: schema[key] for key in kept if key in schema}}


def _simplify_keyword(key: str, value: Any, depth: int) -> Any:
    if key == "properties" and isinstance(value, Mapping):
        return {name: _simplify(child, depth) for name, child in value.items()}
    if key == "items":
        return _simplify(value, depth)
    if key == "anyOf" and isinstance(value, list):
        return [_simplify(child, depth) for child in value]
    return value


def _describe_choices(schema: JsonObject) -> str:
    """The values of an enumeration as text, for models that reject the keyword itself."""
    values = schema["enum"] if isinstance(schema.get("enum"), list) else []
    return f"One of: {', '.join(map(str, values))}"[:_MAX_CHOICES_LENGTH] if values else ""


def without_refused_combination(request: GenerateRequest) -> GenerateRequest:
    """The request without Google's tools, if it used the combination. Gemini may refuse something in it with
    words that no rule knows."""
    return without_google_tools(request) if is_combined(request) else request


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
    SchemaRefused: (
        Repair(without_refused_combination, loss=SEARCH_BESIDE_FUNCTIONS),  # it checks calls, too
        Repair(without_strict_calls, loss=STRICT_CALLS),
        Repair(with_simple_schemas, loss=SCHEMA_DETAILS),
    ),
    StrictCallsRefused: (Repair(without_strict_calls, "strict_calls_refused", loss=STRICT_CALLS),),
    ThinkingRefused: (
        Repair(without_thinking_amount, "thinking_amount_refused", loss=THINKING_AMOUNT),
        Repair(without_thinking, "thinking_refused"),
    ),
    SamplingRefused: (Repair(without_sampling, "sampling_refused", loss=SAMPLING_NOT_SENT),),
    ToolCombinationRefused: (
        Repair(without_google_tools, "search_beside_functions_refused", loss=SEARCH_BESIDE_FUNCTIONS),
    ),
    UpstreamRefused: (Repair(without_refused_combination, loss=SEARCH_BESIDE_FUNCTIONS),),
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
