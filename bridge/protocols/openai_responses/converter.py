"""Converts a Responses request to Gemini's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bridge.gemini.hosted_servers import HostedRequest
from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.types import Content, GenerateRequest, JsonObject, Part, Thinking
from bridge.protocols.base import Caller, ConvertedRequest
from bridge.protocols.json_reading import each_object, invalid_field, optional, quoted, required
from bridge.protocols.openai_responses.compaction import compaction_wishes
from bridge.protocols.openai_responses.conversations import CONVERSATIONS
from bridge.protocols.openai_responses.dialects import HEADER, choose
from bridge.protocols.openai_responses.echo import echoed_fields
from bridge.protocols.openai_responses.items import Items
from bridge.protocols.openai_responses.losses import ENCRYPTED_REASONING, LOGPROBS, request_losses
from bridge.protocols.openai_responses.options import ResponsesOptions
from bridge.protocols.openai_responses.tool_choice import chosen_tools
from bridge.protocols.openai_responses.tools import DeclaredTools
from bridge.protocols.openai_responses.truncation import truncation_wishes
from bridge.protocols.openai_tiers import requested_tier

VERBOSITIES = ("low", "medium", "high")

_SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "max_output_tokens": "maxOutputTokens",
}


def to_gemini(body: JsonObject, caller: Caller) -> ConvertedRequest:
    _reject_unsupported_fields(body)
    _check_repeated_fields(body)
    declared = DeclaredTools()
    declared.add(body.get("tools") or [], "tools")
    items = Items(declared, caller.seal)
    wishes = compaction_wishes(body)
    compacts_now = any(wish.options.get("alone") for wish in wishes)
    items.instruct(body.get("instructions") or "")
    if isinstance(body["input"], str):
        items.contents.append(Content("user", (Part(body["input"]),)))
    else:
        given = body["input"][:-1] if compacts_now else body["input"]
        for path, item in each_object(given, "input"):
            items.add(item, path)
    choice = chosen_tools(body.get("tool_choice"), declared)
    request = GenerateRequest(
        model=body["model"],
        contents=tuple(items.contents),
        system=items.system,
        tools=choice.tools,
        tool_config=choice.config,
        generation=_generation(body, declared.schemas),
        thinking=_thinking(body),
        service_tier=requested_tier(body),
        draws=declared.draws,
        context=(*truncation_wishes(body), *wishes),
    )
    tool_losses = (*declared.losses, *declared.schemas.losses, *choice.losses)
    lost = request_losses(body, calls_servers=bool(declared.servers))
    losses = (*tool_losses, *items.losses, *lost)
    options = _options(body, declared, caller)
    headers = {HEADER: options.dialect.name}
    hosted = _hosted(body, declared, items)
    if hosted is not None:
        options = replace(options, approved=frozenset(call.id for call in hosted.approved))
    return ConvertedRequest(request, bool(body.get("stream")), options, losses, headers, hosted)


def _hosted(body: JsonObject, declared: DeclaredTools, items: Items) -> HostedRequest | None:
    """What the request wants of the servers that the bridge calls."""
    if not declared.servers:
        return None
    return HostedRequest(
        servers=declared.servers,
        listed=items.mcp.listed,
        approved=items.mcp.approved(),
        most_calls=body.get("max_tool_calls"),
        can_ask=True,
    )


def _reject_unsupported_fields(body: JsonObject) -> None:
    """Reject fields that refer to stored content: without it the request would be incomplete."""
    if body.get("prompt") is not None:
        raise invalid_field("the bridge does not store prompts; send the text itself", "prompt")
    if body.get("background") and body.get("store") is False:
        raise invalid_field("needs store: true, since the answer is fetched later", "background")


def _check_repeated_fields(body: JsonObject) -> None:
    """Check what the schema cannot: the response repeats these fields, and clients read them strictly."""
    CONVERSATIONS.metadata(body)
    verbosity = optional(body.get("text") or {}, "verbosity", str, "text")
    if verbosity is not None and verbosity not in VERBOSITIES:
        raise invalid_field(f"must be one of {', '.join(VERBOSITIES)}", "text.verbosity")
    for index, name in enumerate(body.get("include") or ()):
        if not isinstance(name, str):
            raise invalid_field("must be a string", f"include[{index}]")


def _options(body: JsonObject, declared: DeclaredTools, caller: Caller) -> ResponsesOptions:
    dialect = choose(caller)
    echo = echoed_fields(body, with_tools=dialect.echoes_tools)
    if (named := CONVERSATIONS.named(body)) is not None:
        echo["conversation"] = {"id": named}
    return ResponsesOptions(
        dialect=dialect,
        calls=declared.calls,
        thinking=_thinking(body).show,
        encrypted_reasoning=_includes(body, ENCRYPTED_REASONING),
        logprobs=_includes(body, LOGPROBS),
        echo=echo,
        seal=caller.seal,
    )


def _includes(body: JsonObject, name: str) -> bool:
    return name in (body.get("include") or ())


def _thinking(body: JsonObject) -> Thinking:
    """Thoughts are shown only to clients that asked for a summary, like at OpenAI."""
    reasoning = body.get("reasoning") or {}
    effort = optional(reasoning, "effort", str, "reasoning")
    summary = optional(reasoning, "summary", str, "reasoning")
    summary = summary or optional(reasoning, "generate_summary", str, "reasoning")  # its old name
    return Thinking(effort=effort, show=summary not in (None, "none") and effort != "none")


def _generation(body: JsonObject, schemas: RequestSchemas) -> dict[str, Any]:
    generation = {ours: body[theirs] for theirs, ours in _SAMPLING.items() if body.get(theirs) is not None}
    if _includes(body, LOGPROBS):
        generation["responseLogprobs"] = True
        if body.get("top_logprobs"):
            generation["logprobs"] = body["top_logprobs"]
    form = optional(body.get("text") or {}, "format", dict, "text")
    if form is not None:
        generation.update(_answer_format(form, schemas))
    return generation


def _answer_format(form: JsonObject, schemas: RequestSchemas) -> dict[str, Any]:
    kind = required(form, "type", str, "text.format")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"responseMimeType": "application/json"}
    if kind == "json_schema":
        return schemas.answer_format(required(form, "schema", dict, "text.format"), "text.format.schema")
    raise invalid_field(f"must be text, json_object or json_schema, not {quoted(kind)}", "text.format.type")
