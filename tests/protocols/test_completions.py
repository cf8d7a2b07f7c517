"""Legacy Completions: what is asked for a gap, and what is counted because it has no place in the answer."""

from __future__ import annotations

from collections import Counter

import pytest
from transcripts import NAMES, TranscriptVariant, chunks_of

from bridge.gemini.finish import Outcome
from bridge.gemini.types import FunctionCall
from bridge.protocols import openai_completions
from bridge.protocols.openai_completions.fences import FenceFilter, unfenced
from bridge.protocols.openai_completions.gaps import Gap, gap_in_template, question
from bridge.protocols.openai_completions.machine import FINISH_REASONS

COMPLETIONS = TranscriptVariant(openai_completions.PROTOCOL, "")


def test_every_outcome_has_a_finish_reason_of_the_vendor() -> None:
    assert set(FINISH_REASONS) == set(Outcome)
    assert set(FINISH_REASONS.values()) == {"stop", "length", "content_filter"}


@pytest.mark.parametrize("name", NAMES)
def test_what_has_no_place_in_the_answer_is_counted(name: str) -> None:
    run, chunks = COMPLETIONS.run(), chunks_of(name)
    run.whole(chunks)
    parts = [part for chunk in chunks for each in chunk.candidates for part in each.parts]
    losses = Counter(run.machine.losses)
    whole = sum(part.data is not None and not isinstance(part.data, str) for part in parts)
    assert losses["completions.part_not_shown"] >= whole
    assert (losses["completions.thought_not_shown"] > 0) == any(
        part.thought and isinstance(part.data, str) and (part.data or part.signature) for part in parts
    )
    if any(isinstance(part.data, FunctionCall) for part in parts):
        assert losses


@pytest.mark.parametrize("begin", ["", "// context\n"])
@pytest.mark.parametrize(
    ("before", "hole", "end"),
    [
        ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        ("<fim_prefix>", "<fim_suffix>", "<fim_middle>\n"),
        ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ],
)
def test_the_gap_in_a_template_is_found(begin: str, before: str, hole: str, end: str) -> None:
    assert gap_in_template(f"{begin}{before}x = {hole}\ny = 2{end}") == Gap(f"{begin}x = ", "\ny = 2")


@pytest.mark.parametrize(
    "prompt",
    [
        "x = 1",
        "What does <|fim_prefix|> mean?",
        "<|fim_prefix|>x<|fim_suffix|>y",
        "<|fim_prefix|>x<|fim_middle|>",
        "<fim_prefix>x<|fim_suffix|>y<fim_middle>",
    ],
)
def test_another_prompt_has_no_gap(prompt: str) -> None:
    assert gap_in_template(prompt) is None


@pytest.mark.parametrize(
    "gap", [Gap("", ""), Gap("a", "b"), Gap("<|cursor|>", "<|cursor___|>"), Gap("<|cursor", "_|> <|cursor|>")]
)
def test_the_mark_is_at_the_cursor_and_nowhere_else(gap: Gap) -> None:
    system, text = question("", gap)
    mark = text.removeprefix(gap.before).removesuffix(gap.after)
    assert mark.startswith("<|cursor")
    assert text == f"{gap.before}{mark}{gap.after}"
    assert text.count(mark) == 1
    assert system.count(mark) == 2


def test_the_same_gap_gives_the_same_question() -> None:
    assert question("", Gap("a", "b")) == question("", Gap("a", "b"))


@pytest.mark.parametrize("text", ["```\na\n```", "```js\na\nb\n```\n", "```\n```", "```x```\n", "`` `", "a"])
def test_the_filter_gives_the_same_wherever_the_text_is_cut(text: str) -> None:
    for cut in range(len(text) + 1):
        fences = FenceFilter()
        given = fences.feed(text[:cut]) if cut else ""
        given += fences.feed(text[cut:]) if cut < len(text) else ""
        assert given + fences.finish() == (unfenced(text) if text.startswith("```") else text)
