"""Chunks of answers with calls and thoughts in their text."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import (
    Candidate,
    Chunk,
    Content,
    FunctionCall,
    FunctionDeclaration,
    GenerateRequest,
    InlineData,
    Part,
    TextChunk,
    Tool,
    Usage,
)
from bridge.gemini.wire import chunk_from_json
from bridge.text_tools import AnswerReader, request_in_text

REQUEST = GenerateRequest("m", (Content("user", (Part("x"),)),), tools=(Tool((FunctionDeclaration("t"),)),))
CALL = '<tool_call>{"name": "t", "arguments": {"a": 1}}</tool_call>'
CALLED = Part(FunctionCall("t", {"a": 1}))


def reader(**capabilities: Any) -> AnswerReader:
    model = ModelCapabilities(tools="text", **({"think": "show"} | capabilities))
    return request_in_text(REQUEST, model, no_thinking=False).new_answer_reader(lambda _note: None)


def chunk(*parts: Part, finish: str | None = None, index: int = 0) -> Chunk:
    return Chunk((Candidate(Content("model", parts), finish, index),))


def parts(read: Chunk, candidate: int = 0) -> tuple[Part, ...]:
    return read.candidates[candidate].parts


def test_a_chunk_of_plain_text_is_passed_on_as_it_is() -> None:
    text = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello, a < b."}]}}]}
    came = chunk_from_json(text)
    assert isinstance(came, TextChunk)
    assert reader().feed(came) is came
    assert reader().feed(Chunk(usage=Usage({"a": 1}))) == Chunk(usage=Usage({"a": 1}))


def test_the_usage_of_a_chunk_stays_although_its_text_is_held_back() -> None:
    text = {
        "candidates": [{"content": {"role": "model", "parts": [{"text": CALL[:20]}]}}],
        "usageMetadata": {"totalTokenCount": 7},
        "modelVersion": "m-1",
    }
    read = reader().feed(chunk_from_json(text))
    assert (parts(read), read.usage, read.extra) == (
        (),
        Usage({"totalTokenCount": 7}),
        {"modelVersion": "m-1"},
    )


def test_a_chunk_with_the_finish_reason_releases_what_is_held_back() -> None:
    answer = reader()
    assert parts(answer.feed(chunk(Part("I <tool_")))) == (Part("I "),)
    read = answer.feed(Chunk((Candidate(None, "STOP"),)))
    assert parts(read) == (Part("<tool_"),)
    assert read.candidates[0].finish_reason == "STOP"


def test_candidates_are_read_apart() -> None:
    answer = reader()
    answer.feed(chunk(Part(CALL[:20])))
    assert parts(answer.feed(chunk(Part(CALL[20:]), index=1))) == (Part(CALL[20:]),)
    assert parts(answer.feed(chunk(Part(CALL[20:])))) == (CALLED,)


def test_a_signature_stays_on_a_text_that_does_not_change() -> None:
    signed = Part("Hello.", signature="s")
    empty = Part("", signature="s")
    assert parts(reader().feed(chunk(signed, empty))) == (signed, empty)
    assert parts(reader().feed(chunk(Part(CALL, signature="s")))) == (CALLED,)


def test_parts_that_are_no_text_keep_their_place() -> None:
    image = Part(InlineData("image/png", "aGk="))
    given = parts(reader().feed(chunk(Part("a\n{"), image, CALLED, Part(CALL))))
    assert given == (Part("a\n"), Part("{"), image, CALLED, CALLED)


@pytest.mark.parametrize("think", ["drop", "off"])
def test_dropped_thoughts_leave_only_their_signatures(think: str) -> None:
    thoughts = (Part("Hm.", thought=True), Part("Hm.", thought=True, signature="s"))
    given = parts(reader(think=think).feed(chunk(*thoughts, Part("<think>So</think>Yes."))))
    assert given == (Part("", thought=True, signature="s"), Part("Yes."))


def test_without_context_the_text_waits_for_the_end() -> None:
    answer = reader(preserve_context=False)
    assert parts(answer.feed(chunk(Part("I look."), Part("Hm.", thought=True)))) == (
        Part("Hm.", thought=True),
    )
    assert parts(answer.feed(chunk(Part(CALL)))) == (CALLED,)
    assert parts(answer.feed(chunk(Part("Done."), finish="STOP"))) == ()
    answer = reader(preserve_context=False)
    assert parts(answer.feed(chunk(Part("I look. ")))) == ()
    assert parts(answer.feed(chunk(Part("Done."), finish="STOP"))) == (Part("I look. "), Part("Done."))


def test_the_text_behind_a_reported_thought_does_not_begin_inside_a_thought() -> None:
    reading = reader(think_opens="template")
    reading.feed(chunk(Part("Hm.", thought=True)))
    assert parts(reading.feed(chunk(Part("So."), finish="STOP"))) == (Part("So."),)


@pytest.mark.parametrize(("no_thinking", "thought"), [(True, False), (False, True)])
def test_without_thinking_the_answer_may_begin_outside_of_a_thought(no_thinking: bool, thought: bool) -> None:
    model = ModelCapabilities(think="show", think_opens="template")
    written = request_in_text(REQUEST, model, no_thinking=no_thinking)
    reading = written.new_answer_reader(lambda _note: None)
    assert parts(reading.feed(chunk(Part("So."), finish="STOP"))) == (Part("So.", thought=thought),)
