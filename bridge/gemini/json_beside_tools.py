"""Requests that want a JSON answer and declare tools, for models that reject this combination.

The tools stay, since an agent needs them. The system instruction asks for JSON instead of `generationConfig`.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from bridge.gemini.types import Content, GenerateRequest, JsonObject, Part

NOTE = "generation.json_beside_tools"

_WHEN_ANSWERING = "When you answer, and do not call a tool, answer"
_SCHEMAS = ("responseJsonSchema", "responseSchema")


def json_instruction(beginning: str, schema: JsonObject | None) -> str:
    """The sentence that asks for JSON, in place of a setting."""
    text = f"{beginning} with JSON alone: no other words, no code fence."
    return (
        text if schema is None else f"{text} It must fit this JSON schema:\n{orjson.dumps(schema).decode()}"
    )


def ask_for_json_in_instruction(request: GenerateRequest) -> tuple[GenerateRequest, tuple[str, ...]]:
    if not request.tools or request.generation.get("responseMimeType") != "application/json":
        return request, ()
    schema = next((request.generation[name] for name in _SCHEMAS if name in request.generation), None)
    text = json_instruction(_WHEN_ANSWERING, schema)
    parts = () if request.system is None else request.system.parts
    dropped = ("responseMimeType", *_SCHEMAS)
    generation = {name: value for name, value in request.generation.items() if name not in dropped}
    return replace(request, system=Content(None, (*parts, Part(text))), generation=generation), (NOTE,)
