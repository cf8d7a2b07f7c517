"""A request of the bridge as the body of Ollama's `/api/chat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.errors import InvalidRequest
from bridge.gemini.losses import SETTINGS_NOT_SENT
from bridge.gemini.thinking import AUTOMATIC
from bridge.gemini.types import GenerateRequest, InlineData, JsonObject
from bridge.upstream.openai.conversation import ASSISTANT, TOOL, Block, Message, messages_of
from bridge.upstream.openai.request import JSON, answer_schema, model_name
from bridge.upstream.openai.thinking import wanted_budget
from bridge.upstream.openai.tools import chat_tools, declared

Fields = dict[str, Any]

#: Gemini's settings and Ollama's options.
OPTIONS: Mapping[str, str] = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "seed": "seed",
    "stopSequences": "stop",
    "maxOutputTokens": "num_predict",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_EXPRESSED = frozenset(
    ("thinkingConfig", "responseMimeType", "responseJsonSchema", "responseSchema", "candidateCount")
)


def chat_body(request: GenerateRequest, window: int, *, thinks: bool, server: str) -> Fields:
    """`thinks`: the model can think; Ollama refuses the switch for other models."""
    generation = request.generation
    options = {OPTIONS[name]: value for name, value in generation.items() if name in OPTIONS}
    body: Fields = {
        "model": model_name(request),
        "stream": True,
        "messages": [_message(message) for message in messages_of(request.system, request.contents)],
        "options": {**options, "num_ctx": window},
        # Newer servers then refuse a prompt that is too long; older ones ignore both fields.
        "truncate": False,
        "shift": False,
    }
    if functions := _callable(request, server):
        body["tools"] = chat_tools(functions)
    if generation.get("responseMimeType") == JSON:
        body["format"] = answer_schema(generation) or "json"
    if thinks and (think := _think(generation)) is not None:
        body["think"] = think
    return body


def losses_of(request: GenerateRequest) -> tuple[str, ...]:
    """The names of what the request says and the body cannot."""
    known = OPTIONS.keys() | _EXPRESSED
    several = request.generation.get("candidateCount") not in (None, 1)
    dropped = [name for name in request.generation if name not in known]
    forced = _mode(request.tool_config) == "ANY"  # Ollama has no tool_choice
    lost = dropped or several or forced or request.extra or request.service_tier
    return (SETTINGS_NOT_SENT,) if lost else ()


def _callable(request: GenerateRequest, server: str) -> list[Any]:
    """The functions that the model may call: Ollama has no field that forbids calls."""
    functions = declared(request, server)
    return [] if _mode(request.tool_config) == "NONE" else functions


def _mode(config: JsonObject) -> Any:
    calling = config.get("functionCallingConfig")
    return calling.get("mode") if isinstance(calling, Mapping) else None


def _think(generation: JsonObject) -> bool | None:
    config = generation.get("thinkingConfig")
    budget = wanted_budget(config) if isinstance(config, Mapping) else AUTOMATIC
    return None if budget == AUTOMATIC else budget != 0


def _message(message: Message) -> Fields:
    fields: Fields = {"role": message.role, "content": "\n".join(_texts(message))}
    if message.role == TOOL:
        return {**fields, "tool_name": message.name}
    if images := [_image(block) for block in message.blocks if not isinstance(block, str)]:
        fields["images"] = images
    if message.role == ASSISTANT and message.thoughts:
        fields["thinking"] = "".join(message.thoughts)
    if message.calls:
        fields["tool_calls"] = [
            {"function": {"name": call.name, "arguments": dict(call.args)}} for call in message.calls
        ]
    return fields


def _texts(message: Message) -> list[str]:
    return [block for block in message.blocks if isinstance(block, str)]


def _image(block: Block) -> str:
    if isinstance(block, InlineData) and block.mime_type.startswith("image/"):
        return block.data
    raise InvalidRequest("Ollama accepts images in base64 only; remove the other media")
