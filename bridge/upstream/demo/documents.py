"""Answers from documents: the demo model searches them with a tool, and quotes the lines that fit best."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from bridge.gemini.types import FunctionDeclaration, JsonObject
from bridge.upstream.demo.ask import DemoRequest

SEARCH = "docs__grep"  #: the tool of the agent that the bridge brings
MOST_QUOTED = 3
_WORD = re.compile(r"[a-z][a-z0-9_]{2,}")
_QUESTION_WORDS = frozenset(
    (
        *("about", "and", "are", "can", "change", "configure", "could", "does", "find", "for", "from", "get"),
        *(
            "have",
            "how",
            "into",
            "one",
            "out",
            "set",
            "should",
            "tell",
            "than",
            "that",
            "the",
            "their",
            "them",
        ),
        *("this", "use", "used", "using", "was", "what", "when", "where", "which", "who", "why", "will"),
        *("with", "would", "you", "your"),
    )
)
_MATCH = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+): (?P<text>.*)")


class _Match(NamedTuple):
    file: str
    line: str
    text: str


def search(ask: DemoRequest) -> FunctionDeclaration | None:
    """The tool with which the question can be searched, if one is declared and the question has words."""
    if ask.dictated is not None or not words_of(ask):
        return None
    return next((function for function in ask.functions if function.name == SEARCH), None)


def arguments(ask: DemoRequest) -> JsonObject:
    return {"pattern": rf"(?i)(?:\b|_)(?:{'|'.join(words_of(ask))})\b", "glob": "*.md"}


def answer(ask: DemoRequest) -> str | None:
    """The answer to results of the search; None if there are none."""
    outputs = [str(each.response.get("output", "")) for each in ask.results if each.name == SEARCH]
    if not outputs:
        return None
    matches = [_Match(*found.groups()) for text in outputs for found in _MATCH.finditer(text)]
    words = words_of(ask)
    best = sorted(matches, key=lambda match: -_score(match.text, words))[:MOST_QUOTED]
    if not best:
        return "The documents do not tell."
    quotes = "\n".join(f"- {match.file}, line {match.line}: {match.text.strip(' *|-')}" for match in best)
    return f"The documents of Gemini Bridge say:\n\n{quotes}"


def words_of(ask: DemoRequest) -> Sequence[str]:
    found = dict.fromkeys(_WORD.findall(ask.gist.lower()))
    return [word for word in found if word not in _QUESTION_WORDS][:8]


def _score(text: str, words: Sequence[str]) -> int:
    """A line that names a setting or a variable counts more than one that only has the word."""
    named = sum(f".{word}" in text or f"_{word.upper()}" in text for word in words)
    return 3 * named + sum(word in text.lower() for word in words) + ("`" in text)
