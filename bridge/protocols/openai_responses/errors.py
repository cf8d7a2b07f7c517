"""Errors as Codex reacts to them, where that differs from what OpenAI's other clients are told."""

from __future__ import annotations

from bridge.errors import BridgeError
from bridge.protocols.openai_errors import ERROR_NAMES, message_of

#: A repetition of these cannot help, or the status would make Codex repeat them thirty times over.
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

#: The code for which Codex shows the message as it is and does not try five times more.
FATAL_WITH_MESSAGE = "invalid_prompt"

#: Codes that mean something else to Codex in a stream than with an HTTP status: it gives up at once over an
#: overload, which passes, and repeats a refusal, which does not.
_IN_THE_STREAM = {
    "overloaded": "server_error",
    "busy": "server_error",
    "shutting_down": "server_error",
    "refused": FATAL_WITH_MESSAGE,
    "too_large": FATAL_WITH_MESSAGE,
}


def stream_error(error: BridgeError) -> dict[str, str]:
    """What `response.failed` carries. Codex waits only if the message says how long."""
    message = message_of(error)
    if error.kind == "rate_limited" and error.retry_after_seconds:
        message = f"{message} Please try again in {error.retry_after_seconds}s."
    code = _IN_THE_STREAM.get(error.kind, ERROR_NAMES[error.kind].code) if error.retryable else None
    return {"code": code or FATAL_WITH_MESSAGE, "message": message}
