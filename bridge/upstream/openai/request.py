"""A request of the bridge as the body of a Chat Completions call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.errors import InvalidRequest
from bridge.gemini.json_beside_tools import json_instruction
from bridge.gemini.losses import SETTINGS_NOT_SENT, THINKING_AMOUNT
from bridge.gemini.types import Content, GenerateRequest, JsonObject, Part
from bridge.upstream.openai.conversation import messages_of
from bridge.upstream.openai.dialects import Dialect, JsonAnswers
from bridge.upstream.openai.messages import chat_messages
from bridge.upstream.openai.thinking import Fields, wanted_budget
from bridge.upstream.openai.tools import chat_tools, chosen_tools, declared, json_schema

JSON = "application/json"
#: Settings that have no field of their own, because other fields express them.
_EXPRESSED = frozenset(("thinkingConfig", "responseMimeType", "responseJsonSchema", "responseSchema"))
_JSON_OBJECT = {"type": "json_object"}


def chat_body(request: GenerateRequest, dialect: Dialect, server: str) -> Fields:
    """The body of a streamed call."""
    settings = {**_settings(request.generation, dialect), **thinking_fields(request, dialect)}
    body = {"model": model_name(request), "stream": True, **prompt(request, dialect, server), **settings}
    if dialect.stream_options:
        body["stream_options"] = {"include_usage": True}
    return body


def prompt(request: GenerateRequest, dialect: Dialect, server: str) -> Fields:
    """The fields that make up the prompt: messages, tools, and the form of the answer."""
    if request.extra.get("cachedContent"):
        raise InvalidRequest(f"{server} has no cached content; remove cachedContent", param="cachedContent")
    form, instruction = _answer_form(request.generation, dialect)
    system = request.system
    if instruction:
        system = Content(None, (*(() if system is None else system.parts), Part(instruction)))
    fields: Fields = {"messages": chat_messages(messages_of(system, request.contents), dialect), **form}
    functions, choice = chosen_tools(declared(request, server), request.tool_config, dialect)
    if functions:
        fields["tools"] = chat_tools(functions)
        if choice is not None:
            fields["tool_choice"] = choice
    return fields


def model_name(request: GenerateRequest) -> str:
    return request.model.removeprefix("models/")


def losses_of(request: GenerateRequest, dialect: Dialect) -> tuple[str, ...]:
    """The names of what the request says and the body cannot."""
    sent = dialect.fields.keys() | _EXPRESSED
    dropped = [name for name in request.generation if name not in sent]
    losses = [SETTINGS_NOT_SENT] if dropped or request.extra or request.service_tier else []
    if dialect.thinking is None and _amount_of(request.generation):
        losses.append(THINKING_AMOUNT)
    return tuple(losses)


def _amount_of(generation: JsonObject) -> bool:
    config = generation.get("thinkingConfig")
    return isinstance(config, Mapping) and not config.keys() <= {"includeThoughts"}


def _settings(generation: JsonObject, dialect: Dialect) -> Fields:
    fields: Fields = {}
    for name, value in generation.items():
        field = dialect.fields.get(name)
        if field is not None and not (name == "candidateCount" and value == 1):
            fields[field] = value
    return fields


def thinking_fields(request: GenerateRequest, dialect: Dialect) -> Fields:
    config = request.generation.get("thinkingConfig")
    if dialect.thinking is None or not isinstance(config, Mapping):
        return {}
    return dialect.thinking(wanted_budget(config))


def shows_thoughts(request: GenerateRequest) -> bool:
    """Whether the client wants to see thoughts. Without a setting they are shown, since many models of such
    servers always think."""
    config = request.generation.get("thinkingConfig")
    return not isinstance(config, Mapping) or config.get("includeThoughts") is not False


def answer_schema(generation: JsonObject) -> JsonObject | None:
    schema: Any = generation.get("responseJsonSchema") or json_schema(generation.get("responseSchema"))
    return schema if isinstance(schema, Mapping) else None


def _answer_form(generation: JsonObject, dialect: Dialect) -> tuple[Fields, str]:
    """The field for a JSON answer, and the sentence that the instruction needs."""
    if generation.get("responseMimeType") != JSON:
        return {}, ""
    schema = answer_schema(generation)
    if dialect.json_answers is JsonAnswers.SCHEMA and schema is not None:
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        return {"response_format": form}, ""
    if dialect.json_answers is JsonAnswers.SCHEMA:
        return {"response_format": _JSON_OBJECT}, ""
    instruction = json_instruction("Answer", schema)
    asked = dialect.json_answers is JsonAnswers.OBJECT
    return {"response_format": _JSON_OBJECT} if asked else {}, instruction
