"""Errors inside a response. Codex needs other codes than OpenAI's other clients."""

from __future__ import annotations

from typing import Any

from bridge.errors import BridgeError
from bridge.protocols.openai_errors import ERROR_NAMES, message_of

#: Kinds for which a retry cannot help, or whose HTTP status would make Codex retry thirty times.
STREAM_ERROR_KINDS = frozenset(
    {
        "context_overflow",
        "too_large",
        "misconfigured",
        "timeout",
        "unreachable",
        "truncated",
        "malformed",
        "internal",
    }
)

#: For this code Codex shows the message and does not retry five times.
FATAL_WITH_MESSAGE = "invalid_prompt"

#: Codes for streams, where Codex treats some codes differently: it gives up at once on an overload, which is
#: temporary, and retries a rejection, which is permanent.
_STREAM_CODES = {
    "overloaded": "server_error",
    "busy": "server_error",
    "shutting_down": "server_error",
    "refused": FATAL_WITH_MESSAGE,
    "too_large": FATAL_WITH_MESSAGE,
}


def response_error(error: BridgeError) -> dict[str, Any]:
    """The error of a failed response: a code of OpenAI's list, and the bridge's own code beside it."""
    code = ERROR_NAMES[error.kind].code or error.kind
    return {"code": _vendor_code(error.status), "message": _message(error), "bridge_code": code}


def _vendor_code(status: int) -> str:
    if status == 429:
        return "rate_limit_exceeded"
    return "invalid_prompt" if status < 500 else "server_error"


def codex_error(error: BridgeError) -> dict[str, Any]:
    """The error of a failed response for Codex."""
    code = _STREAM_CODES.get(error.kind, ERROR_NAMES[error.kind].code) if error.retryable else None
    return {"code": code or FATAL_WITH_MESSAGE, "message": _message(error)}


def _message(error: BridgeError) -> str:
    """The message. Codex waits only if the message contains the delay."""
    message = message_of(error)
    if error.kind == "rate_limited" and error.retry_after_seconds:
        return f"{message} Please try again in {error.retry_after_seconds}s."
    return message
