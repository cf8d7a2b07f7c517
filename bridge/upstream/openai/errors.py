"""Converts the errors of servers that speak Chat Completions to the bridge's own errors.

Servers write an error in many envelopes: `{"error": {"message", "type", "code"}}`, `{"error": "text"}`,
`{"object": "error", "message", "code"}`, `{"detail": …}`, an array of one of these, or the HTML of a proxy.
Inside a stream an error comes under HTTP 200.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from bridge.errors import BridgeError
from bridge.gemini.types import JsonObject
from bridge.upstream.errors import Report, classify, mask
from bridge.upstream.overflow import overflow_in

#: The status that an error's `type` or `code` means, where the error has no number.
STATUS_OF_WORD: Mapping[str, int] = {
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "invalid_request_error": 400,
    "invalid_request": 400,
    "BadRequestError": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "permission_denied_error": 403,
    "insufficient_quota": 429,
    "not_found_error": 404,
    "model_not_found": 404,
    "NotFoundError": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "RateLimitError": 429,
    "overloaded_error": 503,
    "server_overloaded": 503,
    "unavailable_error": 503,
    "timeout": 504,
}
OVERFLOW = "context_length_exceeded"
#: Finish reasons under which the content is an error.
ERROR_WORDS = frozenset(("error", "error_finish"))

_SECRET = re.compile(r"\b(?:sk|gsk|sk-or|sk-proj|key)-[\w-]{16,}")
_ERROR_STATUS = re.compile(r"[45][0-9]{2}")
_THROTTLED = re.compile(r"(?i)throttl|rate.?limit|too many requests")
_OVERLOADED = re.compile(r"(?i)overloaded|server busy|no capacity")


def error_from_body(status: int, body: bytes, model: str, delay: float | None, server: str) -> BridgeError:
    """The error for an HTTP response with another status than 200."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    return classify(_report(status, _envelope(document), server, delay), model)


def error_in(payload: JsonObject, model: str, server: str) -> BridgeError | None:
    """The error in an event or an answer whose HTTP status was 200, if it holds one."""
    envelope = _envelope(payload)
    if not envelope and not (envelope := _failed_choice(payload)):
        return None
    return classify(_report(_status(envelope), envelope, server, None), model)


def _envelope(document: Any) -> JsonObject:
    """The fields of the error; no fields if there is none."""
    if isinstance(document, list) and document:
        document = document[0]
    if not isinstance(document, dict):
        return {}
    error = document.get("error")
    if isinstance(error, dict) and error:
        return error
    if isinstance(error, str) and error:
        return {"message": error}
    if "choices" in document:
        return {}
    if document.get("object") == "error" or "message" in document:
        return document if isinstance(document.get("message"), str) else {}
    detail = document.get("detail")
    return {"message": detail if isinstance(detail, str) else orjson.dumps(detail).decode()} if detail else {}


def _failed_choice(payload: JsonObject) -> JsonObject:
    """The error of a choice that ended with an error: its text is the message."""
    choices = payload.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and str(choice.get("finish_reason")) in ERROR_WORDS:
            delta = choice.get("delta")
            text = delta.get("content") if isinstance(delta, dict) else None
            return {"message": text if isinstance(text, str) else "The answer ended with an error."}
    return {}


def _status(envelope: JsonObject) -> int:
    """The HTTP status that an error inside a stream stands for."""
    for name in ("code", "status", "http_code", "type"):
        value = envelope.get(name)
        if isinstance(value, int | str) and _ERROR_STATUS.fullmatch(str(value)):
            return int(value)
        if isinstance(value, str) and value in STATUS_OF_WORD:
            return STATUS_OF_WORD[value]
    text = str(envelope.get("message"))
    if _THROTTLED.search(text):
        return 429
    return 503 if _OVERLOADED.search(text) else 500


def _report(status: int, envelope: JsonObject, server: str, delay: float | None) -> Report:
    named = [envelope.get(name) for name in ("type", "code")]
    words = [each for each in named if isinstance(each, str) and not each.isdecimal()]
    text = _SECRET.sub("[key]", mask(_text(envelope).strip()))
    if overflow_in(text) is not None:
        status = 400  # some servers answer 413, 422 or 500
    return Report(status, mask(words[0])[:40] if words else "", text, (), server, delay)


def _text(envelope: JsonObject) -> str:
    """The message, with the numbers that llama.cpp writes beside it, and the detail of a relay."""
    message = envelope.get("message")
    text = message if isinstance(message, str) else ""
    if envelope.get("code") == OVERFLOW:
        text = f"{text} ({OVERFLOW})"
    numbers = [name for name in ("n_prompt_tokens", "n_ctx") if isinstance(envelope.get(name), int)]
    if numbers and "n_ctx" not in text:
        text += " (" + ", ".join(f"{name} {envelope[name]}" for name in numbers) + ")"
    metadata = envelope.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return f"{text}: {raw}" if isinstance(raw, str) and raw else text
