"""Codex's reaction to a failed response: some codes end the turn, others cause a retry."""

from __future__ import annotations

import pytest

from bridge.errors import BridgeError, ContextOverflow, concrete_errors
from bridge.protocols.openai_errors import ERROR_NAMES
from bridge.protocols.openai_responses.errors import codex_error, response_error

#: Observed with the real Codex: it stops at these codes, and retries five times at all others.
FATAL = {"context_length_exceeded", "invalid_prompt", "model_not_found", "server_is_overloaded"}

#: Errors that a retry may fix; all others are permanent.
WORTH_A_TRY = {
    "limited",
    "rate_limited",
    "slow_request",
    "busy",
    "shutting_down",
    "overloaded",
    "timeout",
    "unreachable",
    "truncated",
    "malformed",
    "internal",
}
#: Errors that cannot occur in a stream.
BEFORE_ANY_STREAM = {
    "unknown_previous",
    "unauthorized",
    "forbidden",
    "unknown_route",
    "unknown_answer",
    "method",
    "upgrade",
}
#: No client is connected to receive these errors.
UNHEARD = {"client_left"}

KINDS = sorted(
    (kind for kind in concrete_errors() if kind.kind not in BEFORE_ANY_STREAM | UNHEARD),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_codex_retries_only_retryable_errors(kind: type[BridgeError]) -> None:
    told = codex_error(kind("What happened."))
    assert told["message"].startswith("Your messages" if kind is ContextOverflow else "What happened.")
    assert (told["code"] not in FATAL) == (kind.kind in WORTH_A_TRY and kind.retryable)


def test_codex_gets_the_retry_delay_in_the_message() -> None:
    limited = next(kind for kind in concrete_errors() if kind.kind == "rate_limited")
    assert codex_error(limited("Slow down.", retry_after=4.2)) == {
        "code": "rate_limit_exceeded",
        "message": "Slow down. Please try again in 5s.",
    }


CODES = {True: "rate_limit_exceeded", False: "invalid_prompt"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_other_clients_get_openais_code_and_the_bridges_beside_it(kind: type[BridgeError]) -> None:
    told = response_error(kind("What happened."))
    assert told["code"] == ("server_error" if kind.status >= 500 else CODES[kind.status == 429])
    assert told["bridge_code"] == (ERROR_NAMES[kind.kind].code or kind.kind)
