"""Completion in the middle of a text. Gemini has no endpoint for it, so instructions ask for the gap."""

from __future__ import annotations

import re
from typing import NamedTuple

#: How templates of editors write the text before the cursor, the text after it, and the end of the prompt.
_TEMPLATES = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
)

_MARK = re.compile(r"<\|cursor(_*)\|>")

_CONTINUE = (
    "The message is the beginning of a text. Write what follows its last character, and nothing else: do not "
    "repeat the beginning, and do not comment on it. If the text is source code, continue the code without "
    "Markdown fences. If the text is a question or an instruction, write the answer."
)
_FILL = (
    "The message is a document, mostly source code, that is open in an editor. {mark} marks the cursor. "
    "Write only the text to insert at the cursor, so that the text before it, your text and the text after "
    "it are one document. Keep to the document's indentation, style and language. Do not repeat the text "
    "before or after the cursor, and do not write {mark}. No explanation, no Markdown fences around it."
)


class Gap(NamedTuple):
    before: str
    after: str


class Question(NamedTuple):
    """What Gemini is asked."""

    system: str
    text: str


def gap_in_template(prompt: str) -> Gap | None:
    """The gap in a prompt that an editor wrote for a model with tokens for it."""
    for begin, hole, end in _TEMPLATES:
        head, found, rest = prompt.partition(begin)
        body = rest.rstrip()
        if found and body.endswith(end):
            before, found, after = body.removesuffix(end).partition(hole)
            if found:
                return Gap(head + before, after)
    return None


def question(prompt: str, gap: Gap | None) -> Question:
    if gap is None:
        return Question(_CONTINUE, prompt)
    mark = _unused_mark(gap)
    return Question(_FILL.format(mark=mark), f"{gap.before}{mark}{gap.after}")


def _unused_mark(gap: Gap) -> str:
    """A mark that the document does not have."""
    taken = [len(found) for text in gap for found in _MARK.findall(text)]
    return f"<|cursor{'_' * (max(taken, default=-1) + 1)}|>"
