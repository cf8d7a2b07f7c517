"""Our errors in OpenAI's words, with the codes that Codex reacts to."""

from __future__ import annotations

from typing import Any, NamedTuple

from bridge.errors import BridgeError


class _Words(NamedTuple):
    type: str
    code: str | None


#: One row for each kind in the tree; a test fails when one is missing.
WORDS: dict[str, _Words] = {
    "invalid_request": _Words("invalid_request_error", None),
    "context_overflow": _Words("invalid_request_error", "context_length_exceeded"),
    "too_large": _Words("invalid_request_error", "request_too_large"),
    "unknown_route": _Words("invalid_request_error", "unknown_url"),
    "unknown_model": _Words("invalid_request_error", "model_not_found"),
    "unknown_answer": _Words("invalid_request_error", "not_found"),
    "method": _Words("invalid_request_error", "method_not_supported"),
    "upgrade": _Words("invalid_request_error", "upgrade_not_supported"),
    "busy": _Words("server_error", "server_is_overloaded"),
    "refused": _Words("invalid_request_error", "upstream_refused"),
    # The one code for which Codex shows the message as it is and does not try five times more.
    "misconfigured": _Words("server_error", "invalid_prompt"),
    "rate_limited": _Words("rate_limit_error", "rate_limit_exceeded"),
    "overloaded": _Words("server_error", "server_is_overloaded"),
    "timeout": _Words("server_error", "upstream_timeout"),
    "unreachable": _Words("server_error", "upstream_unreachable"),
    "truncated": _Words("server_error", "upstream_truncated"),
    "malformed": _Words("server_error", "upstream_malformed"),
    "internal": _Words("server_error", "internal_error"),
}

#: A repetition of these cannot help, or the status would make Codex repeat them thirty times over.
TOLD_IN_THE_STREAM = frozenset(
    {"context_overflow", "misconfigured", "timeout", "unreachable", "truncated", "malformed", "internal"}
)


def error_body(error: BridgeError, request_id: str = "") -> dict[str, Any]:
    words = WORDS[error.kind]
    body = {"message": error.message, "type": words.type, "param": error.param, "code": words.code}
    return {"error": {**body, "request_id": request_id} if request_id else body}


def error_status(error: BridgeError) -> int:
    return error.status


def stream_error(error: BridgeError) -> dict[str, str]:
    """What `response.failed` carries. Codex waits only if the message says how long."""
    message = error.message
    if error.kind == "rate_limited" and error.retry_after_seconds:
        message = f"{message} Please try again in {error.retry_after_seconds}s."
    return {"code": WORDS[error.kind].code or "invalid_prompt", "message": message}
