"""The demo model: useful answers that are always the same."""

from __future__ import annotations

import base64
import contextlib
import io
import re
import threading
import time
from typing import Any

import orjson
import pytest
from demo_model import TOOLS, finishes, parts, play, said, text, wire

from bridge import errors
from bridge.gemini.types import FunctionCall
from bridge.gemini.wire import request_from_json
from bridge.upstream.demo import DemoUpstream, replies, server
from bridge.upstream.demo.faults import FAULTS


def test_text_streams_in_several_chunks_and_stops() -> None:
    chunks = wire(said("What is the capital of France?"))
    assert len(chunks) > 5
    assert finishes(chunks) == ["STOP"]
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    assert "What is the capital of France?" in text(chunks)


def test_short_pauses_come_before_each_chunk() -> None:
    body = list(server.answer("demo", said("Hello")).body)
    assert all(0.02 <= pause <= 0.04 for pause in body[::2])
    assert all(isinstance(item, bytes) for item in body[1::2])


def test_usage_is_cumulative_at_one_token_per_four_characters() -> None:
    chunks = wire(said("x" * 40))
    totals = [chunk["usageMetadata"]["totalTokenCount"] for chunk in chunks]
    last = chunks[-1]["usageMetadata"]
    assert totals == sorted(totals)
    assert last["promptTokenCount"] == 10
    assert last["candidatesTokenCount"] == -(-len(text(chunks)) // 4)
    assert last["totalTokenCount"] == 10 + last["candidatesTokenCount"]


def test_answers_are_deterministic_for_each_request() -> None:
    first, second, other = (
        list(server.answer("demo", said(ask)).body) for ask in ("Why?", "Why?", "Why not?")
    )
    assert first == second
    assert first != other


@pytest.mark.parametrize("model", ["gemini-3.8-flash", "models/gemini-3.8-flash", "demo-unheard-of", "x"])
def test_any_model_name_is_answered_as_the_plain_model(model: str) -> None:
    chunks = wire(said("echo: here"), model)
    assert text(chunks) == "here"
    assert {chunk["modelVersion"] for chunk in chunks} == {model.removeprefix("models/")}
    assert {len(chunk["responseId"]) for chunk in chunks} == {22}


@pytest.mark.parametrize("question", ["Who are you?", "what can you do", "Help!", "Which model is this?"])
def test_it_explains_itself_and_names_every_variant(question: str) -> None:
    answer = text(wire(said(question)))
    assert "Gemini Bridge" in answer
    assert "GEMINI_API_KEY" in answer
    assert all(f"`demo-{name}`" in answer for name in FAULTS)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("echo: two  spaces\nand a line", "two  spaces\nand a line"),
        ("Repeat after me: “quoted”", "“quoted”"),
        ("Say this is a test!", "this is a test!"),
        ('say "hello"', "hello"),
        ("[demo:usage-late] echo: marked", "marked"),
        ("<system-reminder>use a tool</system-reminder>\necho: wrapped", "wrapped"),
    ],
)
def test_dictated_text_is_repeated_exactly(asked: str, answer: str) -> None:
    assert text(wire(said(asked, tools=TOOLS))) == answer


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Hello!", "Gemini Bridge"),
        ("A haiku, please", "\n"),
        ("Tell me a story", "token|model"),
        ("Make a table", r"\|---\|"),
        ("Give me a list of ideas", "1\\. "),
        ("some javascript code", "```javascript\n"),
        ("a bash script", "```bash\n"),
        ("write a function", "```python\n"),
    ],
)
def test_the_prompt_chooses_the_kind_of_answer(asked: str, found: str) -> None:
    assert re.search(found, text(wire(said(asked))))


@pytest.mark.parametrize("snippet", replies.SNIPPETS["python"])
def test_generated_python_runs(snippet: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(snippet, {})
    assert printed.getvalue().startswith("[")


def test_only_the_last_text_of_a_turn_is_the_question() -> None:
    turn = {"role": "user", "parts": [{"text": "# Instructions: use tools"}, {"text": "echo: question"}]}
    assert text(wire({"contents": [turn], "tools": TOOLS})) == "question"


def test_media_are_mentioned_in_the_answer() -> None:
    data = base64.b64encode(b"12345").decode()
    media = [{"inlineData": {"mimeType": kind, "data": data}} for kind in ("image/png", "application/pdf")]
    files = [{"fileData": {"fileUri": "https://example.com/a.mp3", "mimeType": "audio/mpeg"}}]
    answer = text(wire({"contents": [{"role": "user", "parts": [*media, *files, {"text": "What is it?"}]}]}))
    assert "an image of 5 bytes (image/png)" in answer
    assert "a PDF of 5 bytes (application/pdf)" in answer
    assert "https://example.com/a.mp3 (audio/mpeg)" in answer


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"contents": []},
        {"contents": "nonsense"},
        {"generationConfig": 7},
        {"generationConfig": {"candidateCount": "x", "stopSequences": 7, "responseJsonSchema": 7}},
        {"tools": [{"functionDeclarations": [{"name": "f"}]}], "toolConfig": {"functionCallingConfig": 7}},
        {"tools": [{"functionDeclarations": [{}, {"name": 7}]}], "toolConfig": 7},
        {
            **said("call get_weather"),
            "tools": TOOLS,
            "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": 7}},
        },
    ],
)
def test_invalid_contents_are_answered_too(body: dict[str, Any]) -> None:
    assert finishes(wire(body)) == ["STOP"]


# --- generationConfig --------------------------------------------------------------------------------


def test_the_answer_is_truncated_at_the_token_limit() -> None:
    chunks = wire(said("echo: " + "word " * 50, generationConfig={"maxOutputTokens": 7}))
    assert text(chunks) == ("word " * 50)[:28]
    assert finishes(chunks) == ["MAX_TOKENS"]
    assert chunks[-1]["usageMetadata"]["candidatesTokenCount"] == 7


def test_thoughts_count_against_the_token_limit() -> None:
    chunks = wire(said("Hi", generationConfig={"maxOutputTokens": 5}), "demo-think")
    assert text(chunks) == ""
    assert finishes(chunks) == ["MAX_TOKENS"]


def test_no_answer_is_longer_than_the_limit_of_the_model() -> None:
    chunks = wire(said("echo: " + "x" * 300_000))
    assert len(text(chunks)) == 65_536 * 4
    assert finishes(chunks) == ["MAX_TOKENS"]


def test_a_stop_sequence_ends_the_answer_before_it() -> None:
    chunks = wire(said("echo: one two three", generationConfig={"stopSequences": ["three", "two"]}))
    assert text(chunks) == "one "
    assert finishes(chunks) == ["STOP"]


def test_candidates_are_interleaved_and_differ() -> None:
    chunks = wire(said("Hello", generationConfig={"candidateCount": 3}))
    indices = [chunk["candidates"][0]["index"] for chunk in chunks]
    assert indices[:6] == [0, 1, 2, 0, 1, 2]
    assert len({text(chunks, number) for number in range(3)}) == 3
    assert finishes(chunks) == ["STOP"] * 3


def test_thoughts_are_sent_only_if_requested_and_enabled() -> None:
    shown = {"thinkingConfig": {"includeThoughts": True}}
    chunks = wire(said("Think about bridges", generationConfig=shown))
    assert [part.get("thought") for part in parts(chunks)][:3] == [True, True, None]
    assert chunks[-1]["usageMetadata"]["thoughtsTokenCount"] > 0
    for body in (said("Bridges?", generationConfig=shown), said("Think about bridges")):
        assert not any("thought" in part for part in parts(wire(body)))


def test_json_without_a_schema_is_an_object() -> None:
    answer = text(wire(said("Hello", generationConfig={"responseMimeType": "application/json"})))
    assert isinstance(orjson.loads(answer), dict)


# --- the upstream ------------------------------------------------------------------------------------


def test_models_are_described_as_google_does() -> None:
    entries = DemoUpstream().models()
    assert [entry["name"] for entry in entries] == [
        "models/demo",
        *(f"models/demo-{name}" for name in FAULTS),
    ]
    for entry in entries:
        assert entry["description"]
        assert entry["displayName"]
        assert entry["version"]
        assert entry["inputTokenLimit"] > entry["outputTokenLimit"] > 0
        assert "generateContent" in entry["supportedGenerationMethods"]


def test_tool_calls_are_decoded_as_calls() -> None:
    chunks, _ = play(said("Call get_weather", tools=TOOLS))
    part = chunks[0].candidates[0].parts[0]
    assert part.data == FunctionCall("get_weather", {"city": "Paris", "days": 2})
    assert part.signature


def test_closing_wakes_a_sleeping_stream() -> None:
    stream = DemoUpstream().stream(request_from_json("demo-stall", said("Hi")))
    batches = iter(stream)
    next(batches)
    threading.Timer(0.05, stream.close).start()
    began = time.monotonic()
    assert list(batches) == []
    assert time.monotonic() - began < 10
    stream.close()


def test_a_stream_closed_before_it_began_yields_nothing() -> None:
    stream = DemoUpstream().stream(request_from_json("demo-drop", said("Hi")))
    stream.close()
    assert list(stream) == []


def test_the_pace_setting_scales_the_pauses() -> None:
    began = time.monotonic()
    batches = list(DemoUpstream(pace=0.01).stream(request_from_json("demo-slow", said("echo: hi" * 200))))
    assert len(batches) > 20
    assert 0.2 <= time.monotonic() - began < 10


def test_values_that_json_cannot_hold_are_a_client_error() -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(errors.InvalidRequest):
        DemoUpstream().stream(request_from_json("demo", said("Hi", extra=deep)))
