"""Errors as Codex reacts to them, where that differs from what OpenAI's other clients are told."""

from __future__ import annotations

from bridge.errors import BridgeError
from bridge.protocols.openai_errors import WORDS

#: A repetition of these cannot help, or the status would make Codex repeat them thirty times over.
TOLD_IN_THE_STREAM = frozenset(
    {"context_overflow", "misconfigured", "timeout", "unreachable", "truncated", "malformed", "internal"}
)

#: The code for which Codex shows the message as it is and does not try five times more.
FATAL_WITH_MESSAGE = "invalid_prompt"


def stream_error(error: BridgeError) -> dict[str, str]:
    """What `response.failed` carries. Codex waits only if the message says how long."""
    message = error.message
    if error.kind == "rate_limited" and error.retry_after_seconds:
        message = f"{message} Please try again in {error.retry_after_seconds}s."
    code = None if not error.worth_repeating else WORDS[error.kind].code
    return {"code": code or FATAL_WITH_MESSAGE, "message": message}
