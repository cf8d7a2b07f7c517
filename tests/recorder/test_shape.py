"""The level `shape`: a flight shows structure, and no text of a user, whatever a request contains."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from conversations import CONVERSATIONS
from flights import kept, stage, taped
from gunicorn_bridge import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_gemini import call_chunk, text_chunk
from transcripts import Run

from bridge.errors import BridgeError, InvalidRequest
from bridge.gemini.wire import chunk_from_json
from bridge.observe.record import Record
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import Caller, Protocol
from bridge.recorder.shape import SHORTEST_DIGESTED, Shape
from bridge.recorder.tape import RequestLine
from bridge.web.routes import validated

#: Two of them look like names; the third is a secret that looks like a name.
PROMPT = "Zebracanary tells, nobody"
WORD = "zebracanary"
KEY = "AIzaZebracanary0123456789abcdefghijklmn"
CANARIES = (PROMPT, WORD, KEY)
#: Below these fields a plain name is the name of a model or of a tool, which a shape shows.
NAMING = ("name", "model", "tool_name", "allowedFunctionNames", "allowed_function_names", "modelVersion")


def bodies(protocol: Protocol) -> list[dict[str, Any]]:
    paths = sorted((ROOT / "tests" / "requests" / protocol.name / "valid").glob("*.json"))
    return [orjson.loads(path.read_bytes()) for path in paths if path.suffixes == [".json"]]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in list(inside):
        yield value, key
        if isinstance(below, dict | list):
            yield from places(below)


@st.composite
def tainted(draw: st.DrawFn, valid: list[dict[str, Any]]) -> dict[str, Any]:
    """A valid request in which canaries stand for any texts, fields and values."""
    body = copy.deepcopy(draw(st.sampled_from(valid)))
    for holder, key in draw(st.lists(st.sampled_from(list(places(body))), min_size=1, max_size=8)):
        canary = draw(st.sampled_from(CANARIES))
        if canary == WORD and key in NAMING:
            continue
        taint = draw(st.sampled_from(["text", "field", "object", "list", "number"]))
        if taint == "field" and isinstance(holder, dict):
            holder[canary] = draw(st.sampled_from([1, canary, {canary: canary}]))
        elif taint == "object":
            holder[key] = {canary: {"text": canary, canary: [canary]}}
        elif taint == "list":
            holder[key] = [canary, {"arguments": canary, "input": {canary: 1}}]
        elif taint == "number":
            holder[key] = 4915112345678
        else:
            holder[key] = canary
    return body


def answer(protocol: Protocol) -> tuple[list[Any], list[Any]]:
    """Chunks of an answer full of canaries, and its events."""
    said = [text_chunk(PROMPT), call_chunk(WORD, {WORD: PROMPT, KEY: KEY}, "c1"), text_chunk(KEY, "STOP")]
    chunks = [chunk_from_json(each) for each in said]
    conversation = CONVERSATIONS[protocol.name]
    run = Run(protocol, conversation.opening, caller=conversation.callers[""])
    return chunks, run.whole(chunks)


def converted(protocol: Protocol, body: dict[str, Any]) -> list[Any]:
    try:
        caller = Caller(path={"model": "gemini-3.8-flash", "method": "generateContent"})
        return [protocol.to_gemini(validated(protocol.schema, copy.deepcopy(body)), caller).request]
    except BridgeError:
        return []


def assert_no_canary(lines: list[dict[str, Any]]) -> None:
    shown = orjson.dumps(lines).decode().lower()
    assert "zebracanary" not in shown
    assert "4915112345678" not in shown


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_no_text_secret_or_odd_field_reaches_a_shape(protocol: Protocol) -> None:
    chunks, events = answer(protocol)

    @given(tainted(bodies(protocol)))
    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    def check(body: dict[str, Any]) -> None:
        record = Record("req_1", "POST", "/", client="curl", protocol=protocol.name, model=PROMPT)
        record.failed(InvalidRequest(f"messages: {PROMPT}"))
        record.note([f"drop:{WORD}"])
        record.losses = (f"tools.dropped:{PROMPT}",)
        line = RequestLine(
            {"user-agent": WORD, "authorization": KEY, "cookie": KEY, "x-goog-api-key": KEY, WORD: WORD},
            {"model": PROMPT},
            {"key": KEY, "alt": PROMPT},
        )
        tape = taped("shape", body, converted(protocol, body), [chunks], [events], line)
        tape.client_answer({"choices": [{"message": {"content": PROMPT, WORD: KEY}}]})
        assert_no_canary(kept(tape, record))

    check()


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_a_shape_still_shows_the_structure(protocol: Protocol) -> None:
    body = CONVERSATIONS[protocol.name].opening
    lines = kept(taped("shape", body, converted(protocol, body)))
    shown = stage(lines, "client-request")[0]["body"]
    known = {name for name in body if name in shown}
    assert known == body.keys()
    sent = stage(lines, "gemini-request")[0]["body"]
    assert sent["contents"][0]["role"] == "user"
    assert sent["contents"][0]["parts"][0]["text"]["characters"] > 0


def test_names_of_declared_tools_types_roles_and_models_are_shown() -> None:
    tool = {"type": "function", "function": {"name": "Read", "parameters": {"type": "object"}}}
    call = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    other = {"id": "c2", "type": "function", "function": {"name": "undeclared", "arguments": "{}"}}
    messages = [{"role": "assistant", "tool_calls": [call, other]}]
    lines = kept(taped("shape", {"model": "gpt-5", "messages": messages, "tools": [tool]}))
    shown = stage(lines, "client-request")[0]["body"]
    assert shown["model"] == "gpt-5"
    assert shown["tools"][0]["function"]["name"] == "Read"
    calls = shown["messages"][0]["tool_calls"]
    assert [each["function"]["name"] for each in calls] == ["Read", {"characters": 10}]
    assert calls[0]["type"] == "function"


def test_equal_long_texts_have_equal_digests_and_short_ones_have_none() -> None:
    shape = Shape(frozenset())
    long = "x" * SHORTEST_DIGESTED
    assert shape.of(long) == shape.of(long)
    assert shape.of(long) != shape.of(long[1:] + "y")
    assert shape.of(long[1:]) == {"characters": SHORTEST_DIGESTED - 1}


def test_deep_and_wide_values_have_a_shape() -> None:
    deep: Any = "x"
    for _ in range(3000):
        deep = {"content": [deep]}
    assert kept(taped("shape", {"messages": deep}))


def test_arguments_results_and_schemas_show_no_numbers_and_no_fields() -> None:
    parts = [
        {"functionCall": {"name": "pay", "args": {"text": 4711, "name": "Anna"}}},
        {"functionResponse": {"name": "pay", "response": {"result": {"index": 4711}}}},
    ]
    shown = kept(taped("shape", {"contents": [{"role": "user", "parts": parts}]}))
    (turn,) = stage(shown, "client-request")[0]["body"]["contents"]
    assert turn["parts"][0]["functionCall"]["args"].keys() == {"bytes"}
    assert turn["parts"][1]["functionResponse"]["response"].keys() == {"bytes"}
