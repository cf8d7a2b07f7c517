"""Why Gemini stopped, and what that means for the client.

The table names every reason: a reason that falls through to "stop" would pass a blocked or broken answer off
as a good one. A reason nobody has heard of yet counts as broken, and its name is in the error.
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
    COMPLETE = auto()  #: the model said all it wanted
    LENGTH = auto()  #: the token limit cut it
    FILTERED = auto()  #: a filter cut or refused it
    BROKEN = auto()  #: the answer is unusable, unless a whole call came before


_R = FinishReason

OUTCOMES: dict[FinishReason, Outcome] = {
    _R.STOP: Outcome.COMPLETE,
    _R.TOO_MANY_TOOL_CALLS: Outcome.COMPLETE,  # what was said stands; the model only wanted to go on
    _R.MAX_TOKENS: Outcome.LENGTH,
    _R.CONTINUATION: Outcome.LENGTH,  # one request's share of the output is used up
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
