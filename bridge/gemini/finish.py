"""Gemini's finish reasons and the outcome of each for the client.

The table names every reason. If an unlisted reason counted as "stop", a blocked or broken answer would look
like a good one. So an unknown reason counts as broken, and the error names it.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto


class FinishReason(StrEnum):
    FINISH_REASON_UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"
    STOP = "STOP"
    MAX_TOKENS = "MAX_TOKENS"
    CONTINUATION = "CONTINUATION"
    SAFETY = "SAFETY"
    RECITATION = "RECITATION"
    LANGUAGE = "LANGUAGE"
    OTHER = "OTHER"
    BLOCKLIST = "BLOCKLIST"
    PROHIBITED_CONTENT = "PROHIBITED_CONTENT"
    SPII = "SPII"
    MALFORMED_FUNCTION_CALL = "MALFORMED_FUNCTION_CALL"
    IMAGE_SAFETY = "IMAGE_SAFETY"
    IMAGE_PROHIBITED_CONTENT = "IMAGE_PROHIBITED_CONTENT"
    IMAGE_RECITATION = "IMAGE_RECITATION"
    IMAGE_OTHER = "IMAGE_OTHER"
    NO_IMAGE = "NO_IMAGE"
    UNEXPECTED_TOOL_CALL = "UNEXPECTED_TOOL_CALL"
    TOO_MANY_TOOL_CALLS = "TOO_MANY_TOOL_CALLS"
    MISSING_THOUGHT_SIGNATURE = "MISSING_THOUGHT_SIGNATURE"
    MALFORMED_RESPONSE = "MALFORMED_RESPONSE"


class Outcome(Enum):
    COMPLETE = auto()  #: the model finished its answer
    LENGTH = auto()  #: the token limit truncated it
    FILTERED = auto()  #: a filter stopped or blocked it
    BROKEN = auto()  #: the answer is unusable, unless it contains a complete call


_R = FinishReason

OUTCOMES: dict[FinishReason, Outcome] = {
    _R.STOP: Outcome.COMPLETE,
    _R.TOO_MANY_TOOL_CALLS: Outcome.COMPLETE,  # the answer so far is valid
    _R.MAX_TOKENS: Outcome.LENGTH,
    _R.CONTINUATION: Outcome.LENGTH,  # the answer needs another request to continue
    _R.SAFETY: Outcome.FILTERED,
    _R.RECITATION: Outcome.FILTERED,
    _R.LANGUAGE: Outcome.FILTERED,
    _R.OTHER: Outcome.FILTERED,
    _R.BLOCKLIST: Outcome.FILTERED,
    _R.PROHIBITED_CONTENT: Outcome.FILTERED,
    _R.SPII: Outcome.FILTERED,
    _R.IMAGE_SAFETY: Outcome.FILTERED,
    _R.IMAGE_PROHIBITED_CONTENT: Outcome.FILTERED,
    _R.IMAGE_RECITATION: Outcome.FILTERED,
    _R.IMAGE_OTHER: Outcome.FILTERED,
    _R.NO_IMAGE: Outcome.FILTERED,
    _R.MALFORMED_FUNCTION_CALL: Outcome.BROKEN,
    _R.UNEXPECTED_TOOL_CALL: Outcome.BROKEN,
    _R.MALFORMED_RESPONSE: Outcome.BROKEN,
    _R.MISSING_THOUGHT_SIGNATURE: Outcome.BROKEN,
    _R.FINISH_REASON_UNSPECIFIED: Outcome.BROKEN,
}


def outcome_of(reason: str) -> Outcome:
    try:
        return OUTCOMES[FinishReason(reason)]
    except ValueError:
        return Outcome.BROKEN
