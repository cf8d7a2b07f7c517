"""Embedding requests: passed on unchanged except for the model name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from bridge.gemini.types import Content, JsonObject
from bridge.gemini.wire import content_from_json, content_to_json
from bridge.protocols.base import Caller
from bridge.protocols.embedding import ConvertedEmbedding
from bridge.protocols.gemini_native.converter import model_named
from bridge.protocols.gemini_native.normalise import CONTENT, Message, read
from bridge.protocols.json_reading import each_object, invalid_field, required

BATCH = "batchEmbedContents"
_ONE = Message(one={"content": CONTENT})
_SEVERAL = Message(many={"requests": _ONE})


def embedding_to_gemini(body: JsonObject, caller: Caller) -> ConvertedEmbedding:
    method = caller.path["method"]
    if method == BATCH:
        several = read(_SEVERAL, body)
        requests = list(each_object(required(several, "requests", list, ""), "requests"))
        contents = tuple(_content(one, path) for path, one in requests)
        return ConvertedEmbedding(model_named(caller), method, contents, partial(_batch, several))
    one = read(_ONE, body)
    return ConvertedEmbedding(model_named(caller), method, (_content(one, ""),), partial(_single, one))


def _content(request: JsonObject, path: str) -> Content:
    content = required(request, "content", dict, path)
    if not content.get("parts"):
        raise invalid_field("must hold at least one part", f"{path}.content.parts".lstrip("."))
    return content_from_json(content)


def _single(request: JsonObject, model: str, contents: Sequence[Content]) -> dict[str, Any]:
    return {**request, "model": f"models/{model}", "content": content_to_json(contents[0])}


def _batch(body: JsonObject, model: str, contents: Sequence[Content]) -> dict[str, Any]:
    several = zip(body["requests"], contents, strict=True)
    return {**body, "requests": [_single(request, model, [content]) for request, content in several]}
