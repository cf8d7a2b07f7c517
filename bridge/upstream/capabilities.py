"""Features of requests and answers that an upstream may lack; `Upstream.CANNOT` lists the missing ones."""

from __future__ import annotations

from enum import Enum


class Capability(Enum):
    THOUGHTS = "thoughts in the answer"
    SIGNATURES = "thought signatures, in both directions"
    THINKING = "thinking budget and level"
    SCHEMA_TOOLS = "tools described by a JSON schema"
    SCHEMA_ANSWERS = "answers by a JSON schema"
    SEED = "seed"
    SEARCH = "Google search with sources"
    RESULT_MEDIA = "images in tool results"
    MEDIA_ADDRESSES = "media at https addresses and on YouTube"
    CALL_IDS = "ids of calls"
    WHOLE_NUMBERS = "whole numbers in arguments"
    NEW_FIELDS = "fields that the bridge does not know"
    FINISH_REASONS = "newer finish reasons"
    USAGE_DETAILS = "thoughts and details in the usage"
    STREAM_ERRORS = "an error in the middle of an answer"
    RETRY_DELAYS = "the delay before a retry after a refusal"
    COUNTS = "token counts with instruction and tools"
    EMBEDDINGS = "embeddings"
    MODEL_LIMITS = "a list of models with their limits"
    KEY_ROTATION = "several keys"
    NO_STORAGE = "telling Google not to store data"
    CANCELLATION = "a client's disconnect ends the call"
