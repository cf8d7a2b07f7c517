"""Compaction that a client asks for: a summary of its whole conversation, as a part of the answer."""

from __future__ import annotations

from bridge.context.digests import turn_digests
from bridge.context.history import history_of
from bridge.context.summary_task import LONGEST, VERSION, SummaryTask
from bridge.gemini.summary_part import COMPACTION, CompactionWish
from bridge.gemini.types import MODEL, USER, Content, GenerateRequest

#: Characters of the user's last message that a summary quotes.
LONGEST_QUOTE = 8000
QUOTE = "## Last message of the user\n"


def compaction_wish(request: GenerateRequest) -> CompactionWish | None:
    for wish in request.context:
        if wish.step == COMPACTION:
            return CompactionWish(**wish.options)
    return None


def is_worth_it(request: GenerateRequest, wish: CompactionWish) -> bool:
    """Whether a summary could make the request shorter: there is an answer to summarise, and the conversation
    is not small beside instruction and tools."""
    history, _ = history_of(request)
    has_answer = any(turn.role == MODEL for turn in history.turns)
    return has_answer and (history.tokens - history.fixed) * 4 >= wish.threshold


def compaction_task(request: GenerateRequest, wish: CompactionWish, family: str, owner: str) -> SummaryTask:
    turns = history_of(request)[0].turns
    digests = turn_digests(request, turns, owner, family, VERSION, "whole", wish.instructions)
    return SummaryTask(
        digests[-1],
        turns,
        tuple(each.name for tool in request.tools for each in tool.functions),
        LONGEST,
        wish.instructions,
        asked=True,
    )


def shown_text(text: str, request: GenerateRequest, wish: CompactionWish) -> str:
    """The summary for the client. It also stands for a question that has no answer yet, so it quotes it."""
    turns = history_of(request)[0].turns
    last = turns[-1] if turns and turns[-1].role == USER else Content(USER)
    said = "\n".join(part.data for part in last.parts if isinstance(part.data, str)).strip()
    if wish.keeps_messages or not said:
        return text
    if len(said) > LONGEST_QUOTE:
        said = f"{said[: LONGEST_QUOTE // 2]} […] {said[-LONGEST_QUOTE // 2 :]}"
    return f"{text}\n\n{QUOTE}{said}"
