"""A JSON answer wanted beside tools, for models that refuse the two together.

The tools stay, since an agent cannot do without them; the wish for JSON goes into the instruction, in words.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from bridge.gemini.types import Content, GenerateRequest, Part

NOTE = "generation.json_beside_tools"

_WISH = "When you answer, and do not call a tool, answer with JSON alone: no other words, no code fence."
_SCHEMAS = ("responseJsonSchema", "responseSchema")


def ask_for_json_in_instruction(request: GenerateRequest) -> tuple[GenerateRequest, tuple[str, ...]]:
    if not request.tools or request.generation.get("responseMimeType") != "application/json":
        return request, ()
    schema = next((request.generation[name] for name in _SCHEMAS if name in request.generation), None)
    wish = (
        _WISH if schema is None else f"{_WISH} It must fit this JSON schema:\n{orjson.dumps(schema).decode()}"
    )
    said = () if request.system is None else request.system.parts
    dropped = ("responseMimeType", *_SCHEMAS)
    generation = {name: value for name, value in request.generation.items() if name not in dropped}
    return replace(request, system=Content(None, (*said, Part(wish))), generation=generation), (NOTE,)
