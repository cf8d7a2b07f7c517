"""Adapts `generationConfig` to the model: thinking, sampling and the output limit.

The notes name what was remaining out or changed, so that metrics can count it. A client of Gemini's own API
knows these rules: of its settings the bridge only lowers an output limit that is too high.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridge.gemini.losses import IMAGES_NOT_DRAWN, SAMPLING_NOT_SENT, THINKING_AMOUNT
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.repairs import SAMPLING
from bridge.gemini.thinking import loses_amount, thinking_config
from bridge.gemini.types import FunctionCall, FunctionResponse, GenerateRequest, JsonObject, Part

OUTPUT_LIMIT = "maxOutputTokens"

#: A token has about four characters in prose and three in code. The estimate must not be too low.
CHARACTERS_PER_TOKEN = 3


def adapt_generation(
    request: GenerateRequest, capabilities: ModelCapabilities
) -> tuple[JsonObject, tuple[str, ...]]:
    """The adapted settings, and notes on the changes."""
    generation, notes = dict(request.generation), []
    if not request.native:
        config = thinking_config(capabilities, request.thinking)
        if config is not None:
            generation["thinkingConfig"] = config
        if loses_amount(request.thinking, config):
            notes.append(THINKING_AMOUNT)
        if capabilities.ignores_sampling and _drop_fields(generation, SAMPLING):
            notes.append(SAMPLING_NOT_SENT)
        if request.draws and not _allow_images(generation, capabilities):
            notes.append(IMAGES_NOT_DRAWN)
        if _raise_output_limit(generation, capabilities.output_floor):
            notes.append("generation.output_limit_raised")
    if 0 < capabilities.output_limit < _output_limit(generation, 0):
        generation[OUTPUT_LIMIT] = capabilities.output_limit
    if capabilities.shared_window and _lower_output_limit(generation, request, capabilities):
        notes.append("generation.output_limit_lowered")
    return generation, tuple(notes)


def _allow_images(generation: dict[str, Any], capabilities: ModelCapabilities) -> bool:
    if capabilities.draws:
        generation["responseModalities"] = ["TEXT", "IMAGE"]
    return capabilities.draws


def _drop_fields(generation: dict[str, Any], fields: Iterable[str]) -> bool:
    present = [field for field in fields if field in generation]
    for field in present:
        del generation[field]
    return bool(present)


def _output_limit(generation: dict[str, Any], default: int) -> int:
    """The output limit. Google reports the error if it is not a number."""
    most = generation.get(OUTPUT_LIMIT)
    return most if isinstance(most, int) else default


def _raise_output_limit(generation: dict[str, Any], floor: int) -> bool:
    """Thoughts count as output tokens: with a low limit the client would pay for thoughts and get no
    answer."""
    if _output_limit(generation, floor) >= floor:
        return False
    generation[OUTPUT_LIMIT] = floor
    return True


def _lower_output_limit(
    generation: dict[str, Any], request: GenerateRequest, capabilities: ModelCapabilities
) -> bool:
    """The model rejects a request whose input plus output limit exceeds its context window."""
    remaining = capabilities.window - estimated_tokens(request)
    most = _output_limit(generation, capabilities.output_limit)
    if remaining >= most:
        return False
    generation[OUTPUT_LIMIT] = max(remaining, capabilities.output_floor, 1)
    return True


def estimated_tokens(request: GenerateRequest) -> int:
    """An upper bound for the tokens of texts, calls and tools. Media are not counted: the size of a file says
    nothing about its tokens."""
    contents = request.contents if request.system is None else (request.system, *request.contents)
    characters = sum(_character_count(part) for content in contents for part in content.parts)
    tools = sum(len(str(function)) for tool in request.tools for function in tool.functions)
    return (characters + tools) // CHARACTERS_PER_TOKEN


def _character_count(part: Part) -> int:
    data = part.data
    if isinstance(data, str):
        return len(data)
    if isinstance(data, FunctionCall):
        return len(str(data.args))
    return len(str(data.response)) if isinstance(data, FunctionResponse) else 0
