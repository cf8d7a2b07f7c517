"""Renders errors in Google's format, for both of Google's protocols.

An error has a name from google.rpc.Code, the HTTP status for that name, and details.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bridge.errors import BridgeError

_TYPE = "type.googleapis.com/google.rpc."


class _RpcCode(NamedTuple):
    status: str
    code: int


_INVALID = _RpcCode("INVALID_ARGUMENT", 400)
_MISSING = _RpcCode("NOT_FOUND", 404)
_EXHAUSTED = _RpcCode("RESOURCE_EXHAUSTED", 429)
_UNAVAILABLE = _RpcCode("UNAVAILABLE", 503)
_INTERNAL = _RpcCode("INTERNAL", 500)

#: One row for each kind of error; a test fails if one is missing.
RPC_CODES: dict[str, _RpcCode] = {
    "invalid_request": _INVALID,
    "context_overflow": _INVALID,
    "too_large": _INVALID,
    "unauthorized": _RpcCode("UNAUTHENTICATED", 401),
    "forbidden": _RpcCode("PERMISSION_DENIED", 403),
    "limited": _EXHAUSTED,
    "budget_spent": _EXHAUSTED,
    "slow_request": _RpcCode("DEADLINE_EXCEEDED", 408),
    "client_left": _RpcCode("CANCELLED", 499),
    "unknown_route": _MISSING,
    "unknown_model": _MISSING,
    "unknown_previous": _INVALID,
    "unknown_answer": _MISSING,
    "method": _RpcCode("UNIMPLEMENTED", 405),
    "upgrade": _RpcCode("UNIMPLEMENTED", 426),
    "busy": _UNAVAILABLE,
    "shutting_down": _UNAVAILABLE,
    "refused": _INVALID,
    # Google's clients retry every 5xx, some of them ten times. They show a 400 at once.
    "misconfigured": _RpcCode("FAILED_PRECONDITION", 400),
    "rate_limited": _EXHAUSTED,
    "overloaded": _UNAVAILABLE,
    "timeout": _RpcCode("DEADLINE_EXCEEDED", 504),
    "unreachable": _UNAVAILABLE,
    "truncated": _UNAVAILABLE,
    "malformed": _INTERNAL,
    "internal": _INTERNAL,
}


def error_body(error: BridgeError, request_id: str = "") -> dict[str, Any]:
    rpc = RPC_CODES[error.kind]
    body: dict[str, Any] = {"code": rpc.code, "message": error.message, "status": rpc.status}
    if details := list(_details(error, request_id)):
        body["details"] = details
    return {"error": body}


def _details(error: BridgeError, request_id: str) -> Iterator[dict[str, Any]]:
    if error.kind == "unauthorized":
        yield {"@type": f"{_TYPE}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
    if error.param is not None and RPC_CODES[error.kind] is _INVALID:
        violation = {"field": error.param, "description": error.message}
        yield {"@type": f"{_TYPE}BadRequest", "fieldViolations": [violation]}
    if error.retry_after_seconds is not None:
        yield {"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{error.retry_after_seconds}s"}
    if request_id:
        yield {"@type": f"{_TYPE}RequestInfo", "requestId": request_id}


def error_status(error: BridgeError) -> int:
    return RPC_CODES[error.kind].code
