"""The outcome of each of Gemini's finish reasons."""

from __future__ import annotations

import pytest

from bridge.gemini.finish import FinishReason, Outcome, outcome_of

EXPECTED = {
    "STOP": Outcome.COMPLETE,
    "TOO_MANY_TOOL_CALLS": Outcome.COMPLETE,
    "MAX_TOKENS": Outcome.LENGTH,
    "CONTINUATION": Outcome.LENGTH,
    "SAFETY": Outcome.FILTERED,
    "RECITATION": Outcome.FILTERED,
    "LANGUAGE": Outcome.FILTERED,
    "OTHER": Outcome.FILTERED,
    "BLOCKLIST": Outcome.FILTERED,
    "PROHIBITED_CONTENT": Outcome.FILTERED,
    "SPII": Outcome.FILTERED,
    "IMAGE_SAFETY": Outcome.FILTERED,
    "IMAGE_PROHIBITED_CONTENT": Outcome.FILTERED,
    "IMAGE_RECITATION": Outcome.FILTERED,
    "IMAGE_OTHER": Outcome.FILTERED,
    "NO_IMAGE": Outcome.FILTERED,
    "MALFORMED_FUNCTION_CALL": Outcome.BROKEN,
    "UNEXPECTED_TOOL_CALL": Outcome.BROKEN,
    "MALFORMED_RESPONSE": Outcome.BROKEN,
    "MISSING_THOUGHT_SIGNATURE": Outcome.BROKEN,
    "FINISH_REASON_UNSPECIFIED": Outcome.BROKEN,
}


@pytest.mark.parametrize("reason", FinishReason)
def test_every_finish_reason_has_the_right_outcome(reason: FinishReason) -> None:
    assert outcome_of(reason.value) is EXPECTED[reason]


@pytest.mark.parametrize("reason", ["", "stop", "INVENTED_TOMORROW", "STOP "])
def test_an_unknown_finish_reason_is_a_failure(reason: str) -> None:
    assert outcome_of(reason) is Outcome.BROKEN
