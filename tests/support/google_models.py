"""The models that Google served on 18 November 2026, independent of the bridge's own table."""

from __future__ import annotations

from typing import Any

import orjson
from scripted_gemini import Asked, Reply, sse, text_chunk

ALIVE = (
    "gemini-4-argon",
    "gemini-3.8-flash",
    "gemini-3.6-flash",
    "gemini-3.5-flash-lite",
    "gemini-3.1-flash-lite",
    "gemini-3.1-pro-preview",
    "gemini-3.1-flash-image",
    "gemini-3-pro-image",
    "gemini-flash-latest",
    "gemini-flash-lite-latest",
    "gemini-pro-latest",
)
RETIRED = (
    "gemini-1.5-pro",
    "gemini-1.5-flash",
    "gemini-pro",
    "gemini-2.0-flash",
    "gemini-2.0-flash-001",
    "gemini-2.0-flash-lite",
    "gemini-2.5-pro",
    "gemini-2.5-flash",
    "gemini-2.5-flash-lite",
    "gemini-2.5-flash-image",
    "gemini-3-pro-preview",
    "gemini-3.1-flash-lite-preview",
    "gemini-3.1-flash-image-preview",
    "gemini-3-pro-image-preview",
    "imagen-4.0-generate-001",
)
#: Google answers these names with another model.
REROUTED = ("gemini-3.5-flash", "gemini-3.7-flash")
MEANT_BY_LATEST = {
    "gemini-flash-latest": "gemini-3.8-flash",
    "gemini-flash-lite-latest": "gemini-3.5-flash-lite",
    "gemini-pro-latest": "gemini-3.1-pro-preview",
}


def model_of(asked: Asked) -> str:
    return asked.path.rpartition("/")[2].partition(":")[0]


def not_found(model: str) -> Reply:
    message = (
        f"models/{model} is not found for API version v1beta, or is not supported for generateContent. "
        "Call ListModels to see the list of available models and their supported methods."
    )
    return error(404, "NOT_FOUND", message)


def error(code: int, status: str, message: str) -> Reply:
    body = {"error": {"code": code, "message": message, "status": status}}
    return Reply([orjson.dumps(body)], code, {"Content-Type": "application/json"})


def google_reply(asked: Asked) -> Any:
    """Answer requests for current models, and return 404 for all others."""
    model = model_of(asked)
    if model not in ALIVE:
        return not_found(model)
    if ":countTokens" in asked.path:
        return Reply([b'{"totalTokens": 7}'])
    version = {"modelVersion": MEANT_BY_LATEST.get(model, model)}
    return sse({**text_chunk("Hel"), **version}, {**text_chunk("lo.", "STOP"), **version})


def listed(*names: str, **fields: Any) -> dict[str, Any]:
    """Return a page of Google's model list."""
    limits = {"inputTokenLimit": 1048576, "outputTokenLimit": 65536, "thinking": True}
    methods = {"supportedGenerationMethods": ["generateContent", "countTokens"]}
    return {"models": [{"name": f"models/{name}", **limits, **methods, **fields} for name in names]}
