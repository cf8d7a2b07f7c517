"""What Responses can express and Gemini cannot. `docs/losses.md` is generated from these tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from bridge.gemini.types import JsonObject
from bridge.protocols.openai_prompt_cache import cache_losses

REQUEST_LOSSES: Mapping[str, str] = {
    "responses.include": "The bridge has no such output to include.",
    "responses.parallel_tool_calls": "Gemini cannot be limited to one call in an answer.",
    "responses.verbosity": "Gemini has no setting for the length of an answer.",
    "responses.logprobs": "Log probabilities are sent only if `include` names them.",
    "responses.code_interpreter": "Gemini's code execution has no setting like this one.",
    "responses.image_generation": "The model draws in its own size and format.",
    "responses.max_tool_calls": "Gemini cannot limit the number of calls of its own tools.",
    "responses.moderation": "The bridge does not call OpenAI's moderation.",
    "responses.prompt_cache_options": "Gemini cannot keep a prompt out of its own cache.",
    "responses.obfuscation": "The bridge does not pad the events of a stream.",
    "responses.reasoning_context": "Gemini decides which earlier thoughts it uses.",
    "responses.reasoning_mode": "Gemini has one way to think; only its amount can be set.",
    "responses.reasoning_content": "Gemini takes earlier thoughts from their summary and signature.",
    "responses.format_description": "Gemini takes the schema of an answer without a description beside it.",
    "responses.detail": "Gemini takes no level of detail for a single image or file.",
    "responses.encrypted_compaction": "Another vendor, or the bridge for another client, sealed the summary.",
    "responses.item": "Gemini has no counterpart to an input item of this type.",
    "responses.tool": "Gemini cannot run this hosted tool, or the administrator does not allow its server.",
    "responses.tool_allowed_callers": "Every tool of the request can be called directly.",
    "responses.tool_output_schema": "Gemini takes no schema for the results of a tool.",
    "responses.mcp_server_description": "Each tool keeps its own description; its server has none.",
    "responses.namespace_description": "Gemini has no namespaces; each function keeps its own description.",
    "responses.tool_search_execution": "The client searches for tools; the bridge does not.",
    "responses.search_offline": "Google Search always reads the live web.",
    "responses.search_filters": "Google Search takes no list of domains.",
    "responses.search_context_size": "Google decides how much of its results the model reads.",
    "responses.search_location": "Google Search takes no location of the user.",
    "responses.search_content_types": "Google Search finds texts only.",
}
ANSWER_LOSSES: Mapping[str, str] = {
    "responses.citation_after_message": "Its message was complete before Gemini named the source.",
    "responses.logprobs_outside_message": "The protocol has log probabilities in messages only.",
    "responses.part_not_shown": "The protocol has no item for this kind of part.",
    "responses.thought_not_asked_for": "The client did not ask for thoughts.",
    "responses.signature_without_a_seat": "The protocol has no field for the signature of this part.",
}


MOST_CALLS = "responses.max_tool_calls"
ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"
#: The entries of `include` that the bridge serves. The last three are sent always.
_INCLUDED = (
    ENCRYPTED_REASONING,
    LOGPROBS,
    "code_interpreter_call.outputs",
    "message.input_image.image_url",
    "web_search_call.action.sources",
)
_EMPTY: tuple[Any, ...] = (None, False, "", [])


class _Dropped(NamedTuple):
    loss: str  #: its name after `responses.`
    harmless: tuple[Any, ...] = ()  #: values that ask for what happens anyway; so do the empty ones


_REQUEST: Mapping[str, _Dropped] = {
    "max_tool_calls": _Dropped("max_tool_calls"),
    "moderation": _Dropped("moderation"),
}
#: By the field that holds the object.
_OBJECTS: Mapping[str, Mapping[str, _Dropped]] = {
    "stream_options": {"include_obfuscation": _Dropped("obfuscation")},
    "reasoning": {
        "context": _Dropped("reasoning_context", ("auto",)),
        "mode": _Dropped("reasoning_mode", ("standard",)),
    },
    "text": {"verbosity": _Dropped("verbosity", ("medium",))},
}
_FORMAT: Mapping[str, _Dropped] = {"description": _Dropped("format_description")}
_SEARCH: Mapping[str, _Dropped] = {
    "filters": _Dropped("search_filters"),
    "search_context_size": _Dropped("search_context_size", ("medium",)),
    "search_content_types": _Dropped("search_content_types", (["text"],)),
    "user_location": _Dropped("search_location"),
}
_CALLERS = _Dropped("tool_allowed_callers", (["direct"],))
#: By the type of the tool.
_TOOLS: Mapping[str, Mapping[str, _Dropped]] = {
    "function": {
        "allowed_callers": _CALLERS,
        "output_schema": _Dropped("tool_output_schema"),
    },
    "custom": {"allowed_callers": _CALLERS},
    "mcp": {"allowed_callers": _CALLERS, "server_description": _Dropped("mcp_server_description")},
    "namespace": {"description": _Dropped("namespace_description")},
    "tool_search": {"execution": _Dropped("tool_search_execution", ("client",))},
}


def _dropped(source: Any, table: Mapping[str, _Dropped]) -> Iterator[str]:
    for field, dropped in table.items() if isinstance(source, dict) else ():
        value = source.get(field)
        if value not in _EMPTY and value not in dropped.harmless:
            yield f"responses.{dropped.loss}"


def request_losses(body: JsonObject, *, calls_servers: bool = False) -> list[str]:
    """The losses at the top level of a request. `calls_servers`: the bridge calls tools, and counts them."""
    losses = ["responses.parallel_tool_calls"] if body.get("parallel_tool_calls") is False else []
    losses += [loss for loss in _dropped(body, _REQUEST) if not (calls_servers and loss == MOST_CALLS)]
    losses += cache_losses(body, "responses.prompt_cache_options")
    if body.get("top_logprobs") and LOGPROBS not in (body.get("include") or ()):
        losses.append("responses.logprobs")
    losses += [
        f"responses.include:{name[:64]}" for name in body.get("include") or () if name not in _INCLUDED
    ]
    for field, table in _OBJECTS.items():
        losses += _dropped(body.get(field), table)
    losses += _dropped((body.get("text") or {}).get("format"), _FORMAT)
    return losses


def tool_losses(kind: str, tool: JsonObject) -> Iterable[str]:
    """The losses inside one declared tool."""
    if not kind.startswith("web_search"):
        return _dropped(tool, _TOOLS.get(kind, {}))
    offline = ["responses.search_offline"] if tool.get("external_web_access") is False else []
    return [*offline, *_dropped(tool, _SEARCH)]


def detail_losses(content: Any) -> list[str]:
    """The levels of detail in the content of an item."""
    parts = content if isinstance(content, list) else ()
    wanted = [part.get("detail") for part in parts if isinstance(part, dict)]
    return ["responses.detail"] * sum(each not in (None, "auto") for each in wanted)
