"""Our errors in OpenAI's words, for both of its protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bridge.errors import BridgeError, ContextOverflow


class Words(NamedTuple):
    type: str
    code: str | None


#: One row for each kind in the tree; a test fails when one is missing.
WORDS: Mapping[str, Words] = {
    "invalid_request": Words("invalid_request_error", None),
    "context_overflow": Words("invalid_request_error", "context_length_exceeded"),
    "too_large": Words("invalid_request_error", "request_too_large"),
    "unauthorized": Words("invalid_request_error", "invalid_api_key"),
    "forbidden": Words("invalid_request_error", "model_not_allowed"),
    "limited": Words("rate_limit_error", "rate_limit_exceeded"),
    "budget_spent": Words("rate_limit_error", "rate_limit_exceeded"),
    "slow_request": Words("invalid_request_error", "request_timeout"),
    "client_left": Words("invalid_request_error", "client_left"),
    "unknown_route": Words("invalid_request_error", "unknown_url"),
    "unknown_model": Words("invalid_request_error", "model_not_found"),
    "unknown_answer": Words("invalid_request_error", "not_found"),
    "method": Words("invalid_request_error", "method_not_supported"),
    "upgrade": Words("invalid_request_error", "upgrade_not_supported"),
    "busy": Words("server_error", "server_is_overloaded"),
    "shutting_down": Words("server_error", "server_is_overloaded"),
    "refused": Words("invalid_request_error", "upstream_refused"),
    "misconfigured": Words("server_error", "upstream_misconfigured"),
    "rate_limited": Words("rate_limit_error", "rate_limit_exceeded"),
    "overloaded": Words("server_error", "server_is_overloaded"),
    "timeout": Words("server_error", "upstream_timeout"),
    "unreachable": Words("server_error", "upstream_unreachable"),
    "truncated": Words("server_error", "upstream_truncated"),
    "malformed": Words("server_error", "upstream_malformed"),
    "internal": Words("server_error", "internal_error"),
}


def error_body(error: BridgeError, request_id: str = "") -> dict[str, Any]:
    words = WORDS[error.kind]
    body = {"message": message_of(error), "type": words.type, "param": error.param, "code": words.code}
    return {"error": {**body, "request_id": request_id} if request_id else body}


def message_of(error: BridgeError) -> str:
    return _overflow(error) if isinstance(error, ContextOverflow) else error.message


def _overflow(error: ContextOverflow) -> str:
    """Agents look for OpenAI's words, mostly for these two: `maximum context length is N tokens`, and `reduce
    the length of the messages`."""
    if error.limit is None:
        told = "Your messages are longer than this model's maximum context length."
    else:
        count = "more" if error.tokens is None else f"{error.tokens} tokens"
        told = (
            f"This model's maximum context length is {error.limit} tokens. "
            f"However, your messages resulted in {count}."
        )
    return f"{told} Please reduce the length of the messages."


def error_status(error: BridgeError) -> int:
    return error.status
