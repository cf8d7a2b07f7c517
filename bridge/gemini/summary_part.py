"""Summaries of a conversation: the part with which one reaches the client, and the text for the model.

The part comes at the beginning of an answer. Only the bridge makes it, and Gemini never sees it.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridge.gemini.types import USER, Content, OtherData, Part, PartData, Usage

#: The client asks for a summary with a `ContextWish` of this name. Its options are the fields of
#: `CompactionWish`.
COMPACTION = "compaction"
START, END = "[Previous conversation summary]", "[End summary]"
_FIELD = "conversationSummary"


@dataclass(frozen=True, slots=True)
class CompactionWish:
    threshold: int = 0  #: tokens of the prompt from which on the conversation is summarised; 0: always
    alone: bool = False  #: the answer is the summary alone
    keeps_messages: bool = False  #: the client keeps the user's messages beside the summary
    instructions: str = ""  #: the client's own task for the summary; empty: the bridge's


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    text: str | None  #: None: no summary could be written, and the answer uses the whole conversation
    usage: Usage  #: of the model that wrote it
    alone: bool  #: nothing else follows in this answer

    @property
    def part(self) -> Part:
        return Part(OtherData(_FIELD, self))


def written_summary(data: PartData) -> WrittenSummary | None:
    if isinstance(data, OtherData) and data.field == _FIELD:
        summary: WrittenSummary = data.value
        return summary
    return None


def marked(text: str) -> str:
    """The summary as the model reads it. Marks inside it would end it too early."""
    inside = text.replace(START, "").replace(END, "").strip()
    return f"{START}\n{inside}\n{END}"


def summary_turn(text: str) -> Content:
    return Content(USER, (Part(marked(text)),))


def is_summary_turn(turn: Content) -> bool:
    data = turn.parts[0].data if len(turn.parts) == 1 else None
    return isinstance(data, str) and data.startswith(START)
