"""Converts a Messages request to Gemini's."""

from __future__ import annotations

from typing import Any

from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.service_tier import AUTO, STANDARD
from bridge.gemini.types import GenerateRequest, JsonObject, Thinking
from bridge.protocols.anthropic_messages.compaction import FIELD as COMPACTION
from bridge.protocols.anthropic_messages.compaction import compaction_on_demand
from bridge.protocols.anthropic_messages.context_management import CONTEXT_MANAGEMENT, context_wishes
from bridge.protocols.anthropic_messages.lost_fields import lost_fields, reject_unsupported_fields
from bridge.protocols.anthropic_messages.mcp import hosted_request
from bridge.protocols.anthropic_messages.messages import AnthropicMessages
from bridge.protocols.anthropic_messages.options import MessagesOptions
from bridge.protocols.anthropic_messages.tools import DeclaredTools, chosen_tools
from bridge.protocols.anthropic_messages.versions import check_version
from bridge.protocols.base import Caller, ConvertedRequest
from bridge.protocols.json_reading import (
    each_object,
    invalid_field,
    optional,
    quoted,
    required,
    stop_sequences,
)

_SAMPLING = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
}


#: Anthropic's values of `service_tier`.
SERVICE_TIERS = {"auto": AUTO, "standard_only": STANDARD}


def to_gemini(body: JsonObject, caller: Caller) -> ConvertedRequest:
    reject_unsupported_fields(body)
    losses = check_version(body, caller.headers)
    messages, schemas = AnthropicMessages(caller.seal), RequestSchemas()
    messages.instruct(body.get("system"))
    for path, message in each_object(body["messages"], "messages"):
        messages.add(message, path)
    declared = DeclaredTools(body, schemas)
    choice = chosen_tools(body.get("tool_choice"), declared.tools)
    thinking, shown = _thinking(body)
    request = GenerateRequest(
        model=body["model"],
        contents=tuple(messages.contents),
        system=messages.system,
        tools=choice.tools,
        tool_config=choice.config,
        generation=_generation(body, schemas),
        thinking=thinking,
        service_tier=SERVICE_TIERS.get(body.get("service_tier") or ""),
        context=(*context_wishes(body), *compaction_on_demand(body)),
    )
    hosted = hosted_request(body)
    options = MessagesOptions(
        thinking=shown,
        mcp_blocks=hosted is not None,
        manages_context=body.get(CONTEXT_MANAGEMENT) is not None,
        seal=caller.seal,
        on_demand=bool(body.get(COMPACTION)),
    )
    losses += [*messages.losses, *declared.losses, *choice.losses, *schemas.losses, *lost_fields(body)]
    return ConvertedRequest(request, bool(body.get("stream")), options, tuple(losses), hosted=hosted)


def _thinking(body: JsonObject) -> tuple[Thinking, bool]:
    """The thinking to ask Gemini for, and whether the answer may have thinking blocks.

    Only clients that ask for thinking get its blocks: others may not understand them. With the display
    `omitted`, Gemini sends no thoughts, and the blocks carry only signatures. With `between_tools`, thinking
    is off, and such clients read thinking blocks too.
    """
    wanted = body.get("thinking") or {}
    effort = optional(body.get("output_config") or {}, "effort", str, "output_config")
    omitted = optional(wanted, "display", str, "thinking") == "omitted"
    match optional(wanted, "type", str, "thinking"):
        case None:
            return Thinking(effort=effort, show=False), False
        case "disabled":
            return Thinking(effort="none", show=False), False
        case "between_tools":
            return Thinking(effort="none", show=False), True
        case "adaptive":
            return Thinking(effort=effort, show=not omitted), True
        case "enabled":
            budget = required(wanted, "budget_tokens", int, "thinking")
            return Thinking(budget=budget, show=not omitted), True
        case other:
            raise invalid_field(
                f"must be enabled, adaptive, disabled or between_tools, not {quoted(other)}", "thinking.type"
            )


def _generation(body: JsonObject, schemas: RequestSchemas) -> dict[str, Any]:
    generation = {ours: body[theirs] for theirs, ours in _SAMPLING.items() if body.get(theirs) is not None}
    if generation.get("topK") == 0:  # 0 means no limit, for which Gemini has no value
        del generation["topK"]
    if stop := stop_sequences(body.get("stop_sequences"), "stop_sequences"):
        generation["stopSequences"] = stop
    config = body.get("output_config") or {}
    path = "output_config.format" if config.get("format") else "output_format"
    wanted = config.get("format") or body.get("output_format")
    if wanted is not None:
        generation.update(_answer_schema(wanted, path, schemas))
    return generation


def _answer_schema(wanted: Any, path: str, schemas: RequestSchemas) -> dict[str, Any]:
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
        raise invalid_field("must be an object of the type json_schema", path)
    return schemas.answer_format(required(wanted, "schema", dict, path), f"{path}.schema")
