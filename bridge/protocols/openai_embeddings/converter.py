"""An Embeddings request to Gemini's `batchEmbedContents`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from bridge.gemini.types import Content, JsonObject, Part
from bridge.gemini.wire import content_to_json
from bridge.protocols.base import Caller
from bridge.protocols.embedding import ConvertedEmbedding
from bridge.protocols.json_reading import invalid_field
from bridge.protocols.openai_embeddings.answer import FLOAT, embeddings_body, encoded_vectors

MAX_INPUTS = 2048  #: OpenAI's limit
MOST_AT_ONCE = 100  #: Google refuses a larger batch

#: The sizes that OpenAI's models have if the request names none. Clients create their indexes for them.
USUAL_SIZES = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


def embedding_to_gemini(body: JsonObject, _caller: Caller) -> ConvertedEmbedding:
    texts, model = _texts(body["input"]), body["model"]
    size = body.get("dimensions") or USUAL_SIZES.get(model)
    return ConvertedEmbedding(
        model=model,
        method="batchEmbedContents",
        contents=tuple(Content(None, (Part(text),)) for text in texts),
        body=partial(_batch, size),
        read=partial(encoded_vectors, body.get("encoding_format") or FLOAT),
        answer=partial(embeddings_body, model),
        most_at_once=MOST_AT_ONCE,
    )


def _texts(given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if len(texts) > MAX_INPUTS:
        raise invalid_field(f"must have at most {MAX_INPUTS} texts", "input")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise invalid_field("must be a string; Gemini has tokens of its own", f"input[{index}]")
        if not text:
            raise invalid_field("must not be empty", f"input[{index}]")
    return texts


def _batch(size: int | None, model: str, contents: Sequence[Content]) -> dict[str, Any]:
    wishes = {"model": f"models/{model}"} | ({} if size is None else {"outputDimensionality": size})
    return {"requests": [{**wishes, "content": content_to_json(content)} for content in contents]}
