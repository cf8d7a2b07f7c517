"""Converts a Chat Completions request to Gemini's.

A field that Gemini does not support is dropped and counted if that is harmless; otherwise the request gets a
400.
"""

from __future__ import annotations

from typing import Any

from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.types import GenerateRequest, JsonObject, Thinking
from bridge.protocols.base import Caller, ConvertedRequest
from bridge.protocols.json_reading import (
    each_object,
    invalid_field,
    optional,
    quoted,
    required,
    stop_sequences,
)
from bridge.protocols.openai_chat.machine import ChatOptions
from bridge.protocols.openai_chat.messages import ChatMessages
from bridge.protocols.openai_chat.tools import chosen_tools, custom_tools, declared_tools
from bridge.protocols.openai_prompt_cache import cache_losses
from bridge.protocols.openai_sampling import sampling_from_openai
from bridge.protocols.openai_tiers import requested_tier

_DROPPED = ("audio", "moderation", "prediction", "store", "verbosity")


def to_gemini(body: JsonObject, _caller: Caller) -> ConvertedRequest:
    messages, schemas = ChatMessages(), RequestSchemas()
    for path, message in each_object(body["messages"], "messages"):
        messages.add(message, path)
    choice = chosen_tools(body, declared_tools(body, schemas))
    request = GenerateRequest(
        model=body["model"],
        contents=tuple(messages.contents),
        system=messages.system,
        tools=choice.tools,
        tool_config=choice.config,
        generation=_generation(body, schemas),
        thinking=_thinking(body),
        service_tier=requested_tier(body),
    )
    stream = bool(body.get("stream"))
    losses = (*messages.losses, *schemas.losses, *choice.losses, *_losses(body))
    return ConvertedRequest(request, stream, _options(body, stream), losses)


def _options(body: JsonObject, stream: bool) -> ChatOptions:
    return ChatOptions(
        include_usage=not stream or bool((body.get("stream_options") or {}).get("include_usage")),
        logprobs=bool(body.get("logprobs")),
        legacy_functions=bool(body.get("functions")) and not body.get("tools"),
        custom_tools=custom_tools(body),
    )


def _losses(body: JsonObject) -> list[str]:
    """Dropped fields that Gemini does not support and a client can do without."""
    losses = ["chat.parallel_tool_calls"] if body.get("parallel_tool_calls") is False else []
    losses += [f"chat.{name}" for name in _DROPPED if body.get(name)]
    if (body.get("stream_options") or {}).get("include_obfuscation"):
        losses.append("chat.obfuscation")
    return losses + cache_losses(body, "chat.prompt_cache_options")


def _thinking(body: JsonObject) -> Thinking | None:
    effort = body.get("reasoning_effort")
    return None if effort is None else Thinking(effort=effort)


def _generation(body: JsonObject, schemas: RequestSchemas) -> dict[str, Any]:
    _reject_unsupported_fields(body)
    generation = sampling_from_openai(body)
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit is not None:
        generation["maxOutputTokens"] = limit
    if stop := stop_sequences(body.get("stop"), "stop"):
        generation["stopSequences"] = stop
    if body.get("logprobs"):
        generation["responseLogprobs"] = True
        if body.get("top_logprobs"):
            generation["logprobs"] = body["top_logprobs"]
    generation.update(_response_format(body.get("response_format"), schemas))
    return generation


def _reject_unsupported_fields(body: JsonObject) -> None:
    if body.get("logit_bias"):
        raise invalid_field("Gemini cannot bias single tokens; leave it out", "logit_bias")
    if any(modality != "text" for modality in body.get("modalities") or ()):
        raise invalid_field("the bridge supports only text answers", "modalities")
    if body.get("top_logprobs") and not body.get("logprobs"):
        raise invalid_field("needs logprobs: true", "top_logprobs")


def _response_format(wanted: JsonObject | None, schemas: RequestSchemas) -> dict[str, Any]:
    kind = "text" if wanted is None else required(wanted, "type", str, "response_format")
    if wanted is None or kind == "text":
        return {}
    if kind == "json_object":
        return {"responseMimeType": "application/json"}
    if kind == "json_schema":
        return _answer_schema(wanted, schemas)
    raise invalid_field(
        f"must be text, json_object or json_schema, not {quoted(kind)}", "response_format.type"
    )


def _answer_schema(wanted: JsonObject, schemas: RequestSchemas) -> dict[str, Any]:
    path = "response_format.json_schema"
    named = required(wanted, "json_schema", dict, "response_format")
    schema = dict(required(named, "schema", dict, path))
    if (description := optional(named, "description", str, path)) is not None:
        schema.setdefault("description", description)
    return schemas.answer_format(schema, f"{path}.schema")
