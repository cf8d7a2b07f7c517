"""What Codex makes of a failed response: some codes end its turn, others make it try again."""

from __future__ import annotations

import pytest

from bridge.errors import BridgeError, ContextOverflow, concrete_errors
from bridge.protocols.openai_responses.errors import stream_error

#: Seen with the real Codex: at these it stops at once. With any other it tries five times more.
FATAL = {"context_length_exceeded", "invalid_prompt", "model_not_found", "server_is_overloaded"}

#: What a repetition may mend; everything else it cannot.
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
#: Errors that no stream can run into.
BEFORE_ANY_STREAM = {"unauthorized", "forbidden", "unknown_route", "unknown_answer", "method", "upgrade"}
#: Nobody is there to be told.
UNHEARD = {"client_left"}

KINDS = sorted(
    (kind for kind in concrete_errors() if kind.kind not in BEFORE_ANY_STREAM | UNHEARD),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_codex_repeats_what_a_repetition_may_mend_and_nothing_else(kind: type[BridgeError]) -> None:
    told = stream_error(kind("What happened."))
    assert told["message"].startswith("Your messages" if kind is ContextOverflow else "What happened.")
    assert (told["code"] not in FATAL) == (kind.kind in WORTH_A_TRY and kind.retryable)


def test_codex_is_told_in_words_how_long_to_wait() -> None:
    limited = next(kind for kind in concrete_errors() if kind.kind == "rate_limited")
    assert stream_error(limited("Slow down.", retry_after=4.2)) == {
        "code": "rate_limit_exceeded",
        "message": "Slow down. Please try again in 5s.",
    }
