"""Finds out whether a refusal says that the prompt is too long, with the numbers that it gives.

Every server has its own sentence, and a relay passes on the sentence of the server behind it. So all
sentences are searched for, whichever server refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Overflow(NamedTuple):
    tokens: int | None  #: tokens of the prompt
    limit: int | None  #: tokens that the model accepts


#: Every repetition is bounded, because the server chooses the text.
_SENTENCES = re.compile(
    r"(?i)token count is \d{1,12} but"
    r"|exceeds the maximum number of tokens|prompt is too long|input is too long"
    r"|context_length_exceeded|model_context_window_exceeded|exceed_context_size_error"
    r"|maximum context length is|maximum model length|maximum context window"
    r"|range of input length should be|exceeds? the available context size"
    r"|exceeds? (?:the )?(?:model'?s? )?(?:maximum )?(?:context length|context window|context size)"
    r"|longer than the model'?s context length|\d{1,12} tokens? > \d{1,12} maximum"
    r"|too large for model with \d{1,12} maximum context length|input length exceeds"
)
_TOKENS = (
    re.compile(r"(?i)token count\D{0,40}(\d{1,12})"),
    re.compile(r"(?i)(\d{1,12}) tokens? > \d{1,12} maximum"),
    re.compile(r"(?i)n_prompt_tokens\D{1,4}(\d{1,12})"),
    re.compile(
        r"(?i)(?:you requested|resulted in|request has|input(?: length)?|prompt contains)"
        r"[^\d\n]{0,24}(\d{1,12})(?: input| prompt)? tokens"
    ),
    re.compile(r"(?i)request \((\d{1,12}) tokens\)|prompt \((?:length )?(\d{1,12})\)"),
)
_LIMITS = (
    re.compile(r"(?i)(?:tokens allowed|supports up to)\D{0,8}(\d{1,12})"),
    re.compile(r"(?i)(?:context length|model length|context window|context size)[^\d\n]{0,24}(\d{1,12})"),
    re.compile(r"(?i)input length should be \[\d{1,12}, ?(\d{1,12})\]"),
    re.compile(r"(?i)\d{1,12} tokens? > (\d{1,12}) maximum"),
    re.compile(r"(?i)n_ctx\D{1,4}(\d{1,12})"),
    re.compile(r"(?i)model with (\d{1,12}) maximum context length"),
)


def overflow_in(text: str) -> Overflow | None:
    if not _SENTENCES.search(text):
        return None
    return Overflow(_first(_TOKENS, text), _first(_LIMITS, text))


def _first(patterns: Iterable[re.Pattern[str]], text: str) -> int | None:
    for pattern in patterns:
        if (found := pattern.search(text)) is not None:
            return int(next(filter(None, found.groups())))
    return None
