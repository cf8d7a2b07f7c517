"""Vectors of texts: the request goes on as it came, under the name of the model that it means."""

from __future__ import annotations

from functools import partial
from typing import Any

from bridge.gemini.types import JsonObject
from bridge.protocols.base import Caller, EmbeddingAsked
from bridge.protocols.gemini_native.converter import model_named
from bridge.protocols.gemini_native.spelling import CONTENT, Message, read
from bridge.protocols.reading import needed, objects, refuse

BATCH = "batchEmbedContents"
_ONE = Message(one={"content": CONTENT})
_SEVERAL = Message(many={"requests": _ONE})


def embedding_to_gemini(body: JsonObject, caller: Caller) -> EmbeddingAsked:
    method = caller.path["method"]
    if method == BATCH:
        several = read(_SEVERAL, body)
        for path, one in objects(needed(several, "requests", list, ""), "requests"):
            _check(one, path)
        return EmbeddingAsked(model_named(caller), method, partial(_batch, several))
    one = read(_ONE, body)
    _check(one, "")
    return EmbeddingAsked(model_named(caller), method, partial(_named, one))


def _check(request: dict[str, Any], path: str) -> None:
    content = needed(request, "content", dict, path)
    if not content.get("parts"):
        raise refuse("must hold at least one part", f"{path}.content.parts".lstrip("."))


def _named(request: JsonObject, model: str) -> dict[str, Any]:
    return {**request, "model": f"models/{model}"}


def _batch(body: JsonObject, model: str) -> dict[str, Any]:
    return {**body, "requests": [_named(one, model) for one in body["requests"]]}
