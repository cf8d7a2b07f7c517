"""The digest of a request, by which the request cache finds the answer to an equal request.

The digest covers every field, except the few that change neither the prompt nor the answer. A list of the
fields to cover would miss each new field, and then different requests would get the same answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from bridge.errors import InvalidRequest
from bridge.gemini.types import (
    FileData,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    JsonObject,
    OtherData,
    Part,
)
from bridge.gemini.wire import request_to_json

#: Top-level fields that do not change the answer.
NOT_COVERED = ("labels", "store", "serviceTier")


def request_digest(upstream: str, request: GenerateRequest) -> bytes:
    """`upstream` names the server: equal models of two servers may answer differently."""
    body = request_to_json(request)
    for name in NOT_COVERED:
        body.pop(name, None)
    return json_digest([upstream, request.model, body])


def json_digest(value: Any) -> bytes:
    try:
        canonical = orjson.dumps(value, default=_as_dict, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise InvalidRequest(f"The request cannot be sent to Gemini as JSON: {error}.") from error
    return hashlib.sha256(canonical).digest()


def _as_dict(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def is_repeatable(request: GenerateRequest) -> bool:
    """Whether an earlier answer may stand for a new one: no tools, no files that may change, one text."""
    return (
        not request.tools
        and not request.tool_config
        and "cachedContent" not in request.extra
        and _asks_for_one_text(request.generation)
        and all(_is_repeatable_part(part) for content in request.contents for part in content.parts)
    )


def _asks_for_one_text(generation: JsonObject) -> bool:
    modalities = generation.get("responseModalities") or ["TEXT"]
    return generation.get("candidateCount", 1) == 1 and modalities == ["TEXT"]


def _is_repeatable_part(part: Part) -> bool:
    """A call in the history belongs to an agent, which wants a new answer when it asks again."""
    return not isinstance(part.data, FunctionCall | FunctionResponse | FileData | OtherData)
