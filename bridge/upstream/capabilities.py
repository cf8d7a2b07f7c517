"""What a request or an answer may need of an upstream; what one of them lacks is written in its `CANNOT`."""

from __future__ import annotations

from enum import Enum


class Capability(Enum):
    THOUGHTS = "thoughts in the answer"
    SIGNATURES = "thought signatures, there and back"
    THINKING = "thinking budget and level"
    SCHEMA_TOOLS = "tools described by a JSON schema"
    SCHEMA_ANSWERS = "answers by a JSON schema"
    SEED = "seed"
    SEARCH = "search by Google, with its sources"
    RESULT_MEDIA = "images in tool results"
    CALL_IDS = "ids of calls"
    WHOLE_NUMBERS = "whole numbers in arguments"
    NEW_FIELDS = "fields that the bridge does not know"
    FINISH_REASONS = "newer finish reasons"
    USAGE_DETAILS = "thoughts and details in the usage"
    STREAM_ERRORS = "an error in the middle of an answer"
    RETRY_DELAYS = "how long to wait after a refusal"
    COUNTS = "token counts with instruction and tools"
    EMBEDDINGS = "embeddings"
    MODEL_LIMITS = "a list of models with their limits"
    KEY_ROTATION = "several keys"
    NO_STORAGE = "telling Google to keep nothing"
    CANCELLATION = "a client that leaves ends the call"
