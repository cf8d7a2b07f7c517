"""Renders errors in OpenAI's format, for both of OpenAI's protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bridge.errors import BridgeError, ContextOverflow


class ErrorNames(NamedTuple):
    type: str
    code: str | None


#: One row for each kind of error; a test fails if one is missing.
ERROR_NAMES: Mapping[str, ErrorNames] = {
    "invalid_request": ErrorNames("invalid_request_error", None),
    "unknown_previous": ErrorNames("invalid_request_error", "previous_response_not_found"),
    "context_overflow": ErrorNames("invalid_request_error", "context_length_exceeded"),
    "too_large": ErrorNames("invalid_request_error", "request_too_large"),
    "unauthorized": ErrorNames("invalid_request_error", "invalid_api_key"),
    "forbidden": ErrorNames("invalid_request_error", "model_not_allowed"),
    "limited": ErrorNames("rate_limit_error", "rate_limit_exceeded"),
    "budget_spent": ErrorNames("rate_limit_error", "rate_limit_exceeded"),
    "slow_request": ErrorNames("invalid_request_error", "request_timeout"),
    "client_left": ErrorNames("invalid_request_error", "client_left"),
    "unknown_route": ErrorNames("invalid_request_error", "unknown_url"),
    "unknown_model": ErrorNames("invalid_request_error", "model_not_found"),
    "unknown_answer": ErrorNames("invalid_request_error", "not_found"),
    "method": ErrorNames("invalid_request_error", "method_not_supported"),
    "upgrade": ErrorNames("invalid_request_error", "upgrade_not_supported"),
    "busy": ErrorNames("server_error", "server_is_overloaded"),
    "shutting_down": ErrorNames("server_error", "server_is_overloaded"),
    "refused": ErrorNames("invalid_request_error", "upstream_refused"),
    "misconfigured": ErrorNames("server_error", "upstream_misconfigured"),
    "rate_limited": ErrorNames("rate_limit_error", "rate_limit_exceeded"),
    "overloaded": ErrorNames("server_error", "server_is_overloaded"),
    "timeout": ErrorNames("server_error", "upstream_timeout"),
    "unreachable": ErrorNames("server_error", "upstream_unreachable"),
    "truncated": ErrorNames("server_error", "upstream_truncated"),
    "malformed": ErrorNames("server_error", "upstream_malformed"),
    "internal": ErrorNames("server_error", "internal_error"),
}


def error_body(error: BridgeError, request_id: str = "") -> dict[str, Any]:
    names = ERROR_NAMES[error.kind]
    body = {"message": message_of(error), "type": names.type, "param": error.param, "code": names.code}
    return {"error": {**body, "request_id": request_id} if request_id else body}


def message_of(error: BridgeError) -> str:
    return _overflow_message(error) if isinstance(error, ContextOverflow) else error.message


def _overflow_message(error: ContextOverflow) -> str:
    """OpenAI's sentence for an overflow. Agents search it for `maximum context length is N tokens` and
    `reduce the length of the messages`."""
    if error.limit is None:
        problem = "Your messages are longer than this model's maximum context length."
    else:
        count = "more" if error.tokens is None else f"{error.tokens} tokens"
        problem = (
            f"This model's maximum context length is {error.limit} tokens. "
            f"However, your messages resulted in {count}."
        )
    return f"{problem} Please reduce the length of the messages."


def error_status(error: BridgeError) -> int:
    return error.status
