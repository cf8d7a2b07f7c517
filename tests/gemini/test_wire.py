"""JSON to values and back: nothing is lost, even from unusual JSON."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.gemini.types import (
    EMPTY,
    Candidate,
    Chunk,
    Content,
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    OtherData,
    Part,
    TextChunk,
    Tool,
    Usage,
)
from bridge.gemini.wire import (
    CARRIED_FIELDS,
    chunk_from_json,
    chunk_to_json,
    content_from_json,
    content_to_json,
    part_from_json,
    part_to_json,
    request_from_json,
    request_to_json,
)

ANY_SPEED = settings(deadline=None)

# --- partly valid JSON -------------------------------------------------------------------------------

LEAVES = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.0, 1.0, -2.5]) | st.text(max_size=3)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.text(max_size=3), JSON, max_size=2)


def oddly(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of these fields, each valid or arbitrary, and with other fields."""
    known = st.fixed_dictionaries({}, optional={name: usual | JSON for name, usual in fields.items()})
    return st.builds(lambda some, others: {**others, **some}, known, OBJECTS)


def some(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, max_size=3)


TEXT = st.text(max_size=3)
BLOBS = oddly(mimeType=TEXT, data=TEXT)
FILES = oddly(mimeType=TEXT, fileUri=TEXT)
MEDIA_PARTS = st.fixed_dictionaries({"inlineData": BLOBS}) | st.fixed_dictionaries({"fileData": FILES})
RESPONSES = oddly(id=TEXT, name=TEXT, response=OBJECTS, parts=some(MEDIA_PARTS | JSON))
PARTS = oddly(
    text=TEXT,
    thought=st.booleans(),
    thoughtSignature=TEXT,
    functionCall=oddly(id=TEXT, name=TEXT, args=OBJECTS),
    functionResponse=RESPONSES,
    inlineData=BLOBS,
    fileData=FILES,
    executableCode=OBJECTS,
    toolCall=OBJECTS,
)
CONTENTS = oddly(role=TEXT, parts=some(PARTS | JSON))
CANDIDATES = oddly(
    content=CONTENTS,
    finishReason=st.sampled_from(["STOP", "ODD"]),
    index=st.integers(0, 2),
    safetyRatings=JSON,
)
CHUNKS = oddly(
    candidates=some(CANDIDATES | JSON),
    usageMetadata=OBJECTS,
    promptFeedback=OBJECTS,
    modelVersion=TEXT,
    responseId=TEXT,
)
DECLARATIONS = oddly(name=TEXT, description=TEXT, parametersJsonSchema=OBJECTS, parameters=OBJECTS)
TOOLS = oddly(functionDeclarations=some(DECLARATIONS | JSON), googleSearch=OBJECTS)
REQUESTS = oddly(
    systemInstruction=CONTENTS,
    contents=some(CONTENTS | JSON),
    tools=some(TOOLS | JSON),
    toolConfig=OBJECTS,
    generationConfig=OBJECTS,
    safetySettings=JSON,
    cachedContent=TEXT,
)


def exact(value: Any) -> bytes:
    """In Python 1, 1.0 and true are equal; in JSON they differ."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


@ANY_SPEED
@given(source=CHUNKS)
@example(source={})
@example(source={"candidates": [{"index": 0, "content": {"role": "model", "parts": []}}]})
@example(source={"candidates": [{"index": False, "content": None, "finishReason": None}]})
@example(source={"candidates": [{}, {"content": {}}], "usageMetadata": {}, "promptFeedback": {}})
@example(source={"candidates": [{"content": {"parts": [{"text": "", "thought": False}]}}]})
@example(source={"candidates": [{"content": {"parts": [{"text": "a", "functionCall": {"name": "f"}}]}}]})
def test_a_chunk_makes_a_round_trip(source: dict[str, Any]) -> None:
    before = exact(source)
    assert exact(chunk_to_json(chunk_from_json(source))) == before
    assert exact(source) == before


@ANY_SPEED
@given(source=REQUESTS)
@example(source={"contents": [], "tools": [], "toolConfig": {}, "generationConfig": {}})
@example(source={"tools": [{}, {"functionDeclarations": []}, {"functionDeclarations": [{}]}]})
@example(source={"systemInstruction": "You are a pirate."})
def test_a_request_makes_a_round_trip(source: dict[str, Any]) -> None:
    before = exact(source)
    assert exact(request_to_json(request_from_json("m", source))) == before
    assert exact(source) == before


@pytest.mark.parametrize("parts", [5, True, 1.5, "ab", None, {}, {"a": 1}, [], [1], [{}]])
def test_unusual_response_media_are_unchanged(parts: Any) -> None:
    source = {"functionResponse": {"name": "f", "response": {}, "parts": parts}}
    assert part_to_json(part_from_json(source)) == source


def test_a_declaration_with_an_empty_name_keeps_it() -> None:
    source = {"tools": [{"functionDeclarations": [{"name": ""}, {"name": None}, {}]}]}
    assert request_to_json(request_from_json("m", source)) == source


def test_a_part_with_two_members_keeps_both() -> None:
    source = {"functionCall": {"name": "f"}, "inlineData": {"mimeType": "a/b", "data": ""}, "toolCall": {}}
    assert part_to_json(part_from_json(source)) == source


def test_a_known_field_is_parsed_and_not_kept_as_unknown() -> None:
    part = part_from_json(
        {
            "functionCall": {"id": "1", "name": "f", "args": {"a": 1}, "new": 2},
            "thoughtSignature": "s",
            "x": 0,
        }
    )
    assert part == Part(FunctionCall("f", {"a": 1}, "1", {"new": 2}), signature="s", extra={"x": 0})


# --- values that the bridge builds -------------------------------------------------------------------

NAMES = st.sampled_from(["f", "get_weather"])
EXTRAS = st.just(EMPTY) | st.just({"newField": 1})
MAYBE_TEXT = st.none() | TEXT
INLINE = st.builds(InlineData, TEXT, TEXT, EXTRAS)
FILE = st.builds(FileData, TEXT, MAYBE_TEXT, EXTRAS)
MEDIA = st.lists(INLINE | FILE, max_size=2).map(tuple)
DATA = (
    st.none()
    | TEXT
    | st.builds(FunctionCall, NAMES, st.none() | OBJECTS, MAYBE_TEXT, EXTRAS)
    | st.builds(FunctionResponse, NAMES, OBJECTS, MAYBE_TEXT, MEDIA, EXTRAS)
    | INLINE
    | FILE
    | st.builds(OtherData, st.sampled_from(CARRIED_FIELDS), JSON)
)
BUILT_PARTS = st.builds(Part, DATA, st.booleans(), MAYBE_TEXT, EXTRAS)
BUILT_CONTENTS = st.builds(Content, MAYBE_TEXT, st.lists(BUILT_PARTS, max_size=3).map(tuple), EXTRAS)
BUILT_CANDIDATES = st.builds(
    Candidate, st.none() | BUILT_CONTENTS, MAYBE_TEXT, st.none() | st.integers(0, 3), EXTRAS
)
BUILT_CHUNKS = st.builds(
    Chunk,
    st.lists(BUILT_CANDIDATES, max_size=2).map(tuple),
    st.none() | st.builds(Usage, OBJECTS),
    st.none() | OBJECTS,
    EXTRAS,
)
BUILT_TOOLS = st.builds(
    Tool,
    st.lists(st.builds(FunctionDeclaration, NAMES, MAYBE_TEXT, st.none() | OBJECTS, EXTRAS), max_size=2).map(
        tuple
    ),
    EXTRAS,
)
BUILT_REQUESTS = st.builds(
    GenerateRequest,
    st.just("m"),
    st.lists(BUILT_CONTENTS, max_size=2).map(tuple),
    st.none() | BUILT_CONTENTS,
    st.lists(BUILT_TOOLS, max_size=2).map(tuple),
    OBJECTS,
    OBJECTS,
    extra=EXTRAS,
)


@ANY_SPEED
@given(content=BUILT_CONTENTS)
def test_a_constructed_content_makes_a_round_trip(content: Content) -> None:
    assert content_from_json(content_to_json(content)) == content


@ANY_SPEED
@given(chunk=BUILT_CHUNKS)
def test_a_constructed_chunk_makes_a_round_trip(chunk: Chunk) -> None:
    assert chunk_from_json(chunk_to_json(chunk)) == chunk


@ANY_SPEED
@given(request=BUILT_REQUESTS)
def test_a_constructed_request_makes_a_round_trip(request: GenerateRequest) -> None:
    assert request_from_json("m", request_to_json(request)) == request


@ANY_SPEED
@given(request=BUILT_REQUESTS)
def test_a_serialised_request_is_plain_json(request: GenerateRequest) -> None:
    assert orjson.loads(orjson.dumps(request_to_json(request))) == request_to_json(request)


def test_a_text_chunk_equals_a_general_chunk_and_can_be_copied() -> None:
    said = {"content": {"parts": [{"text": "Hi"}], "role": "model"}, "index": 0}
    source = {"candidates": [said], "usageMetadata": {"totalTokenCount": 3}, "responseId": "r"}
    chunk = chunk_from_json(source)
    candidate = Candidate(Content("model", (Part("Hi"),)), index=0)
    made = Chunk((candidate,), Usage({"totalTokenCount": 3}), extra={"responseId": "r"})
    assert isinstance(chunk, TextChunk)
    assert chunk == made
    assert made == chunk
    assert copy.deepcopy(chunk) == chunk
    assert chunk_to_json(chunk) == source


@pytest.mark.parametrize(
    "change",
    [
        {"finishReason": "STOP"},
        {"index": 1},
        {"index": True},
        {"safetyRatings": []},
        {"content": {"parts": [{"text": "Hi"}]}},
        {"content": {"parts": [{"text": ""}], "role": "model"}},
        {"content": {"parts": [{"text": "Hi", "thought": True}], "role": "model"}},
        {"content": {"parts": [{"text": "Hi", "thoughtSignature": "s"}], "role": "model"}},
        {"content": {"parts": [{"text": "Hi"}, {"text": "!"}], "role": "model"}},
        {"content": {"parts": "Hi", "role": "model"}},
    ],
)
def test_a_chunk_with_other_data_is_not_a_text_chunk(change: dict[str, Any]) -> None:
    said = {"content": {"parts": [{"text": "Hi"}], "role": "model"}, "index": 0, **change}
    chunk = chunk_from_json({"candidates": [said]})
    assert not isinstance(chunk, TextChunk)
    assert chunk_to_json(chunk) == {"candidates": [said]}
