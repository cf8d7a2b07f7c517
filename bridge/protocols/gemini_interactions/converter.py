"""Converts an Interactions request to Gemini's."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError

from bridge.gemini.request_schemas import RequestSchemas
from bridge.gemini.types import EMPTY, Content, GenerateRequest, JsonObject, Part, Thinking
from bridge.protocols.base import Caller, ConvertedRequest
from bridge.protocols.content_parts import system_content
from bridge.protocols.gemini_interactions.machine import InteractionOptions
from bridge.protocols.gemini_interactions.schema import GenerationSchema
from bridge.protocols.gemini_interactions.steps import Steps
from bridge.protocols.gemini_interactions.tools import chosen_tools, declared_tools
from bridge.protocols.json_reading import (
    each_object,
    invalid_field,
    optional,
    quoted,
    required,
    stop_sequences,
)

_CONFIG = GenerationSchema()
_SAMPLING = {
    "max_output_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_IMAGE = {"aspect_ratio": "aspectRatio", "image_size": "imageSize"}
_JSON = "application/json"
_FORMATS = ("text", "image", "audio", "video")
_MODALITIES = ("text", "image")


def to_gemini(body: JsonObject, _caller: Caller) -> ConvertedRequest:
    if body.get("background") and body.get("store") is False:
        raise invalid_field("needs store: true, since the answer is fetched later", "background")
    config = _config(body)
    steps = _steps(body["input"])
    schemas = RequestSchemas()
    tools = declared_tools(body.get("tools") or [], schemas)
    thinking = Thinking(effort=config.get("thinking_level"), show=config.get("thinking_summaries") == "auto")
    instruction = body.get("system_instruction") or ""
    request = GenerateRequest(
        model=body["model"],
        contents=tuple(steps.contents),
        system=system_content([instruction] if instruction.strip() else []),
        tools=tools,
        tool_config=chosen_tools(body, config.get("tool_choice"), tools),
        generation=_generation(body, config, schemas),
        thinking=thinking,
        service_tier=body.get("service_tier"),
        extra=_top_level_fields(body) or EMPTY,
    )
    options = InteractionOptions(thinking.show, body.get("previous_interaction_id"))
    return ConvertedRequest(
        request, bool(body.get("stream")), options, (*steps.losses, *schemas.losses, *_losses(body))
    )


def _losses(body: JsonObject) -> list[str]:
    return ["interactions.labels"] if body.get("labels") else []


def _config(body: JsonObject) -> JsonObject:
    config: JsonObject = body.get("generation_config") or {}
    try:
        _CONFIG.load(config)
    except ValidationError as error:
        name, problems = next(iter(error.messages_dict.items()))
        raise invalid_field(problems[0], f"generation_config.{name}") from None
    return config


def _steps(given: Any) -> Steps:
    steps = Steps()
    if isinstance(given, str):
        steps.contents.append(Content("user", (Part(given),)))
        return steps
    if isinstance(given, dict):
        steps.add(given, "input")
        return steps
    for path, step in each_object(given, "input"):
        steps.add(step, path)
    return steps


def _generation(body: JsonObject, config: JsonObject, schemas: RequestSchemas) -> dict[str, Any]:
    generation = {
        ours: config[theirs] for theirs, ours in _SAMPLING.items() if config.get(theirs) is not None
    }
    if stop := stop_sequences(config.get("stop_sequences"), "generation_config.stop_sequences"):
        generation["stopSequences"] = stop
    if body.get("response_mime_type") == _JSON:
        generation["responseMimeType"] = _JSON
    if config.get("image_config"):
        generation["imageConfig"] = _image_config(config["image_config"])
    generation.update(_answer_formats(body.get("response_format"), schemas))
    if modalities := body.get("response_modalities"):
        generation["responseModalities"] = [_modality(each, "response_modalities") for each in modalities]
    return generation


def _answer_formats(given: Any, schemas: RequestSchemas) -> dict[str, Any]:
    """The settings for one format, a list of formats, or a bare JSON Schema, as older SDKs send it."""
    if isinstance(given, dict) and given.get("type") not in _FORMATS:
        return schemas.answer_format(given, "response_format")
    if given is None or isinstance(given, dict):
        formats = [] if given is None else [("response_format", given)]
    else:
        formats = list(each_object(given, "response_format"))
    generation: dict[str, Any] = {}
    for path, form in formats:
        kind = _modality(form.get("type"), f"{path}.type")
        generation.update(
            _text_format(form, path, schemas) if kind == "TEXT" else {"imageConfig": _image_config(form)}
        )
    kinds = [form["type"].upper() for _, form in formats]
    return {**generation, "responseModalities": kinds} if "IMAGE" in kinds else generation


def _modality(kind: Any, path: str) -> str:
    if kind not in _MODALITIES:
        raise invalid_field(f"must be text or image here, not {quoted(kind)}", path)
    return str(kind).upper()


def _text_format(form: JsonObject, path: str, schemas: RequestSchemas) -> dict[str, Any]:
    schema = optional(form, "schema", dict, path)
    if schema is not None:
        return schemas.answer_format(schema, f"{path}.schema")
    mime_type = optional(form, "mime_type", str, path)
    return {"responseMimeType": _JSON} if mime_type == _JSON else {}


def _image_config(given: JsonObject) -> dict[str, Any]:
    return {ours: given[theirs] for theirs, ours in _IMAGE.items() if given.get(theirs) is not None}


def _top_level_fields(body: JsonObject) -> dict[str, Any]:
    """Fields that are also top-level fields of Gemini's request."""
    fields: dict[str, Any] = {}
    if settings := body.get("safety_settings"):
        fields["safetySettings"] = [
            _safety(each, path) for path, each in each_object(settings, "safety_settings")
        ]
    if cached := body.get("cached_content"):
        fields["cachedContent"] = cached
    return fields


def _safety(setting: JsonObject, path: str) -> dict[str, str]:
    category = required(setting, "type", str, path).upper()
    threshold, method = (
        required(setting, "threshold", str, path).upper(),
        optional(setting, "method", str, path),
    )
    converted = {"category": f"HARM_CATEGORY_{category}", "threshold": threshold}
    return converted if method is None else {**converted, "method": method.upper()}
