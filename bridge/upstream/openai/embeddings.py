"""Google's calls for embeddings as calls of `/embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge.errors import InvalidRequest, UnknownModel, UpstreamMalformed
from bridge.gemini.types import JsonObject

Fields = dict[str, Any]
ONE, SEVERAL = "embedContent", "batchEmbedContents"


def requests_in(model: str, method: str, body: JsonObject) -> Sequence[JsonObject]:
    """The single requests of the call."""
    if method == ONE:
        return (body,)
    requests = body.get("requests")
    if method == SEVERAL and isinstance(requests, list) and all(isinstance(each, dict) for each in requests):
        return requests
    raise UnknownModel(f"This upstream does not support {method} for the model {model!r}", param="model")


def embedding_body(model: str, requests: Sequence[JsonObject]) -> Fields:
    body: Fields = {"model": model, "input": [_text_of(request) for request in requests]}
    dimensions = next(
        (each["outputDimensionality"] for each in requests if "outputDimensionality" in each), None
    )
    return body if dimensions is None else {**body, "dimensions": dimensions}


def _text_of(request: JsonObject) -> str:
    content = request.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    written = [text for text in texts if isinstance(text, str)]
    if not written or len(written) < len(texts):
        raise InvalidRequest("This upstream embeds texts only", param="content")
    return "\n".join(written)


def google_answer(method: str, vectors: Any, number: int, prompt_tokens: Any, server: str) -> JsonObject:
    """The vectors in Google's form."""
    if not isinstance(vectors, list) or len(vectors) != number or not all(map(_is_vector, vectors)):
        raise UpstreamMalformed(f"{server} did not send one vector for each text.")
    usage = {"usageMetadata": {"promptTokenCount": prompt_tokens}} if type(prompt_tokens) is int else {}
    values = [{"values": vector} for vector in vectors]
    return {"embedding": values[0], **usage} if method == ONE else {"embeddings": values, **usage}


def _is_vector(vector: Any) -> bool:
    return isinstance(vector, list) and all(type(number) in (int, float) for number in vector)


def vectors_in(answer: JsonObject) -> list[Any] | None:
    """The vectors of a `/embeddings` answer, in the order of the texts."""
    data = answer.get("data")
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        return None
    in_order = sorted(data, key=lambda item: item["index"] if type(item.get("index")) is int else 0)
    return [item.get("embedding") for item in in_order]
