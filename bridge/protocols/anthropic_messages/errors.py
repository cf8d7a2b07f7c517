"""Renders errors in Anthropic's format. Its clients expect the status 529 for overload, not 503."""

from __future__ import annotations

from typing import Any, NamedTuple

from bridge.errors import BridgeError, ContextOverflow, InvalidCompaction


class _ErrorType(NamedTuple):
    type: str
    status: int


#: One row for each kind of error; a test fails if one is missing.
ERROR_TYPES: dict[str, _ErrorType] = {
    "invalid_request": _ErrorType("invalid_request_error", 400),
    "unknown_previous": _ErrorType("invalid_request_error", 400),
    "context_overflow": _ErrorType("invalid_request_error", 400),
    "too_large": _ErrorType("request_too_large", 413),
    "unauthorized": _ErrorType("authentication_error", 401),
    # The key is valid, but not for this model. Claude Code reports a 403 as a failed login.
    "forbidden": _ErrorType("invalid_request_error", 400),
    "limited": _ErrorType("rate_limit_error", 429),
    "budget_spent": _ErrorType("billing_error", 429),
    "slow_request": _ErrorType("invalid_request_error", 408),
    "client_left": _ErrorType("invalid_request_error", 499),
    "unknown_route": _ErrorType("not_found_error", 404),
    "unknown_model": _ErrorType("not_found_error", 404),
    "unknown_answer": _ErrorType("not_found_error", 404),
    "method": _ErrorType("invalid_request_error", 405),
    "upgrade": _ErrorType("invalid_request_error", 426),
    "busy": _ErrorType("overloaded_error", 529),
    "shutting_down": _ErrorType("overloaded_error", 529),
    "refused": _ErrorType("invalid_request_error", 400),
    "misconfigured": _ErrorType("api_error", 502),
    "rate_limited": _ErrorType("rate_limit_error", 429),
    "overloaded": _ErrorType("overloaded_error", 529),
    "timeout": _ErrorType("timeout_error", 504),
    "unreachable": _ErrorType("api_error", 502),
    "truncated": _ErrorType("api_error", 502),
    "malformed": _ErrorType("api_error", 502),
    "internal": _ErrorType("api_error", 500),
}


def error_body(error: BridgeError, request_id: str = "") -> dict[str, Any]:
    told: dict[str, Any] = {"type": ERROR_TYPES[error.kind].type, "message": _message(error)}
    if isinstance(error, InvalidCompaction) and error.code:
        told["details"] = {"error_code": error.code}
    body = {"type": "error", "error": told}
    return {**body, "request_id": request_id} if request_id else body


def _message(error: BridgeError) -> str:
    return _overflow_message(error) if isinstance(error, ContextOverflow) else error.message


def _overflow_message(error: ContextOverflow) -> str:
    """Claude Code compacts the conversation if it sees this sentence, and reads from the numbers how much to
    drop."""
    if error.limit is None:
        return "prompt is too long for the model"
    if error.tokens is None:
        return f"prompt is too long: more than the {error.limit} tokens maximum"
    return f"prompt is too long: {error.tokens} tokens > {error.limit} maximum"


def error_status(error: BridgeError) -> int:
    return ERROR_TYPES[error.kind].status
