"""The tags of the text form, and a search for them in text that arrives in pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence

TOOL_CALL, TOOL_CALL_END = "<tool_call>", "</tool_call>"
TOOL_RESPONSE, TOOL_RESPONSE_END = "<tool_response>", "</tool_response>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"
THINK = ("<think>", "<thinking>")
THINK_END = ("</think>", "</thinking>")
FENCE = "```"

#: More white space than this between two words separates them, so that a reader never holds back much text.
LONGEST_GAP = 64
_GAP = re.compile(rf"\s{{0,{LONGEST_GAP}}}")

NO = -1  #: the words do not follow
PARTIAL = -2  #: the text ends before it is clear whether the words follow

Word = str | Sequence[str]  #: a sequence lists alternatives


def match_words(text: str, start: int, words: Sequence[Word]) -> int:
    """The index after the words, NO or PARTIAL. White space may separate the words."""
    at = _match_word(text, start, words[0])
    for word in words[1:]:
        if at < 0:
            return at
        at = follows(text, at, word)
    return at


def follows(text: str, at: int, word: Word) -> int:
    """The index after white space and the word, NO or PARTIAL."""
    gap = _GAP.match(text, at)
    assert gap is not None
    return _match_word(text, gap.end(), word)


def _match_word(text: str, at: int, word: Word) -> int:
    result = NO
    for each in (word,) if isinstance(word, str) else word:
        there = text[at : at + len(each)]
        if there == each:
            return at + len(each)
        if at + len(there) == len(text) and each.startswith(there):
            result = PARTIAL
    return result
