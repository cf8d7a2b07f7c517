"""The embedded model: worth trying, the same every time, and wrong in every way Gemini is."""

from __future__ import annotations

import base64
import contextlib
import io
import re
import struct
import threading
import time
import zlib
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import errors
from bridge.gemini.types import Chunk, FunctionCall, InlineData
from bridge.gemini.wire import chunk_to_json, request_from_json
from bridge.upstream.demo import DemoUpstream, replies, server, signatures
from bridge.upstream.demo.clues import WRITTEN_PATH, Clues
from bridge.upstream.demo.faults import BURST_CHUNKS, FAULTS, HUGE_CHARACTERS, PNG, STALL_SECONDS
from bridge.upstream.demo.samples import Sampler
from bridge.upstream.demo.strict import RULES

WEATHER = {
    "name": "get_weather",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 2}},
        "required": ["city", "days"],
    },
}
SHELL = {
    "name": "shell",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"command": {"type": "array", "items": {"type": "string"}}},
        "required": ["command"],
    },
}
TOOLS = [{"functionDeclarations": [WEATHER, SHELL]}]


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}], **fields}


def wire(body: dict[str, Any], model: str = "demo") -> list[dict[str, Any]]:
    """The chunks as the server puts them on the wire."""
    reply = server.answer(model, body)
    assert reply.status == 200
    sent = b"".join(item for item in reply.body if isinstance(item, bytes))
    assert sent.endswith(b"\r\n\r\n")
    return [orjson.loads(event.removeprefix(b"data: ")) for event in sent.split(b"\r\n\r\n")[:-1]]


def refusal(body: dict[str, Any], model: str) -> dict[str, Any]:
    reply = server.answer(model, body)
    assert reply.status >= 400
    envelope: dict[str, Any] = orjson.loads(b"".join(item for item in reply.body if isinstance(item, bytes)))
    assert envelope["error"]["code"] == reply.status
    return envelope["error"]


def parts(chunks: list[dict[str, Any]], number: int = 0) -> list[dict[str, Any]]:
    candidates = [each for chunk in chunks for each in chunk.get("candidates", ()) if each["index"] == number]
    return [part for each in candidates for part in each["content"].get("parts", ())]


def text(chunks: list[dict[str, Any]], number: int = 0) -> str:
    return "".join(part.get("text", "") for part in parts(chunks, number) if not part.get("thought"))


def calls(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part["functionCall"] for part in parts(chunks) if "functionCall" in part]


def finishes(chunks: list[dict[str, Any]]) -> list[str]:
    return [
        each["finishReason"] for chunk in chunks for each in chunk["candidates"] if "finishReason" in each
    ]


def play(body: dict[str, Any], model: str = "demo") -> tuple[list[Chunk], errors.BridgeError | None]:
    """All that the upstream hands on, and what it raised in the end."""
    received: list[Chunk] = []
    try:
        for batch in DemoUpstream(pace=0).stream(request_from_json(model, body)):
            received.extend(batch)
    except errors.BridgeError as error:
        return received, error
    return received, None


# --- the plain model ---------------------------------------------------------------------------------


def test_text_streams_in_several_chunks_and_stops() -> None:
    chunks = wire(said("What is the capital of France?"))
    assert len(chunks) > 5
    assert finishes(chunks) == ["STOP"]
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    assert "What is the capital of France?" in text(chunks)


def test_pauses_are_short_and_lie_before_each_chunk() -> None:
    body = list(server.answer("demo", said("Hello")).body)
    assert all(0.02 <= pause <= 0.04 for pause in body[::2])
    assert all(isinstance(item, bytes) for item in body[1::2])


def test_usage_is_a_running_total_of_a_token_for_four_characters() -> None:
    chunks = wire(said("x" * 40))
    totals = [chunk["usageMetadata"]["totalTokenCount"] for chunk in chunks]
    last = chunks[-1]["usageMetadata"]
    assert totals == sorted(totals)
    assert last["promptTokenCount"] == 10
    assert last["candidatesTokenCount"] == -(-len(text(chunks)) // 4)
    assert last["totalTokenCount"] == 10 + last["candidatesTokenCount"]


def test_the_same_request_gets_the_same_bytes_and_another_gets_others() -> None:
    first, second, other = (
        list(server.answer("demo", said(ask)).body) for ask in ("Why?", "Why?", "Why not?")
    )
    assert first == second
    assert first != other


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "models/gemini-2.5-flash", "demo-unheard-of", "x"])
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
def test_what_is_dictated_is_repeated_exactly(asked: str, answer: str) -> None:
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
def test_its_python_runs(snippet: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(snippet, {})
    assert printed.getvalue().startswith("[")


def test_only_the_last_text_of_a_turn_is_the_question() -> None:
    turn = {"role": "user", "parts": [{"text": "# Instructions: use tools"}, {"text": "echo: question"}]}
    assert text(wire({"contents": [turn], "tools": TOOLS})) == "question"


def test_media_are_noticed() -> None:
    data = base64.b64encode(b"12345").decode()
    media = [{"inlineData": {"mimeType": kind, "data": data}} for kind in ("image/png", "application/pdf")]
    files = [{"fileData": {"fileUri": "https://example.com/a.mp3", "mimeType": "audio/mpeg"}}]
    answer = text(wire({"contents": [{"role": "user", "parts": [*media, *files, {"text": "What is it?"}]}]}))
    assert "an image of 5 bytes (image/png)" in answer
    assert "a PDF of 5 bytes (application/pdf)" in answer
    assert "https://example.com/a.mp3 (audio/mpeg)" in answer


@pytest.mark.parametrize("body", [{}, {"contents": []}, {"contents": "nonsense"}, {"generationConfig": 7}])
def test_nonsense_is_answered_too(body: dict[str, Any]) -> None:
    assert finishes(wire(body)) == ["STOP"]


# --- generationConfig --------------------------------------------------------------------------------


def test_the_answer_is_cut_where_the_tokens_run_out() -> None:
    chunks = wire(said("echo: " + "word " * 50, generationConfig={"maxOutputTokens": 7}))
    assert text(chunks) == ("word " * 50)[:28]
    assert finishes(chunks) == ["MAX_TOKENS"]
    assert chunks[-1]["usageMetadata"]["candidatesTokenCount"] == 7


def test_thoughts_use_up_the_same_tokens() -> None:
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


def test_it_thinks_aloud_only_if_asked_and_allowed_to() -> None:
    shown = {"thinkingConfig": {"includeThoughts": True}}
    chunks = wire(said("Think about bridges", generationConfig=shown))
    assert [part.get("thought") for part in parts(chunks)][:3] == [True, True, None]
    assert chunks[-1]["usageMetadata"]["thoughtsTokenCount"] > 0
    for body in (said("Bridges?", generationConfig=shown), said("Think about bridges")):
        assert not any("thought" in part for part in parts(wire(body)))


def test_json_without_a_schema_is_an_object() -> None:
    answer = text(wire(said("Hello", generationConfig={"responseMimeType": "application/json"})))
    assert isinstance(orjson.loads(answer), dict)


# --- schemas -----------------------------------------------------------------------------------------

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}, "required": ["a"]},
    {"type": "OBJECT", "properties": {"a": {"type": "ARRAY", "items": {"type": "INTEGER"}}}},
    {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 3},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2},
    {"type": "string", "pattern": "^[A-Z]{3}-[0-9]+$"},
    {"type": "string", "minLength": 30, "maxLength": 40},
    {"type": "string", "maxLength": 2},
    {"type": "string", "format": "date-time", "minLength": 5},
    {"type": "integer", "minimum": 11, "multipleOf": 5},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "maximum": -2.5},
    {"type": ["null", "boolean"]},
    {"const": {"fixed": [1]}},
    {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a~1b"}], "$defs": {"a/b": {"type": "boolean"}}},
    {"allOf": [{"required": ["a"]}, {"properties": {"a": {"type": "integer"}}}], "type": "object"},
    {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
                    "leaves": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
                "required": ["name", "next", "leaves"],
            }
        },
    },
]
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def satisfies(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/").replace("~1", "/")
        return satisfies(value, root["$defs"][name], root)
    named = schema.get("type", [])
    names = named if isinstance(named, list) else [named]
    size = len(value) if isinstance(value, str | list) else 0
    return all(
        (
            not names or any(isinstance(value, TYPES[name.lower()]) for name in names),
            "const" not in schema or value == schema["const"],
            "enum" not in schema or value in schema["enum"],
            "anyOf" not in schema or any(satisfies(value, option, root) for option in schema["anyOf"]),
            all(satisfies(value, each, root) for each in schema.get("allOf", ())),
            not isinstance(value, dict) or _members_satisfy(value, schema, root),
            not isinstance(value, list)
            or all(satisfies(each, schema.get("items", {}), root) for each in value),
            schema.get("minLength", 0) <= size <= schema.get("maxLength", size),
            schema.get("minItems", 0) <= size,
            not isinstance(value, str) or re.search(schema.get("pattern", ""), value),
            not isinstance(value, int | float) or _within(value, schema),
        )
    )


def _members_satisfy(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any]) -> bool:
    known = schema.get("properties", {})
    return set(schema.get("required", ())) <= set(value) and all(
        satisfies(each, known.get(name, {}), root) for name, each in value.items()
    )


def _within(value: float, schema: dict[str, Any]) -> bool:
    return (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and schema.get("exclusiveMinimum", value - 1) < value < schema.get("exclusiveMaximum", value + 1)
        and value % schema.get("multipleOf", 1 if isinstance(value, int) else value) == 0
    )


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: orjson.dumps(schema).decode()[:40])
@pytest.mark.parametrize("field", ["responseJsonSchema", "responseSchema"])
def test_json_satisfies_the_schema(schema: dict[str, Any], field: str) -> None:
    generation = {"responseMimeType": "application/json", field: schema}
    value = orjson.loads(text(wire(said('Something "quoted", and 7', generationConfig=generation))))
    assert satisfies(value, schema, schema), value


def test_an_enum_is_answered_as_plain_text() -> None:
    generation = {
        "responseMimeType": "text/x.enum",
        "responseSchema": {"type": "STRING", "enum": ["yes", "no"]},
    }
    assert text(wire(said("Well?", generationConfig=generation))) == "yes"


KEYWORDS = st.sampled_from(
    ["type", "enum", "const", "default", "properties", "required", "items", "anyOf", "allOf", "$ref", "minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "format", "prefixItems", "a", "b"]
)
SCALARS = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        3,
        10**18,
        1e300,
        1e-300,
        "",
        "object",
        "array",
        "string",
        "integer",
        "number",
        "null",
        "#",
        "#/a",
        "(",
    ]
)
NONSENSE = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS, inner, max_size=5),
    max_leaves=30,
)


@given(st.dictionaries(KEYWORDS, NONSENSE, max_size=6))
def test_no_schema_breaks_the_model(schema: dict[str, Any]) -> None:
    orjson.dumps(Sampler(schema, Clues("7 'x'")).sample())


def test_schemas_that_explode_stay_small() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"required": list("bcdefgh"), "properties": {}}}}
    schema["$defs"]["a"]["properties"] = {name: {"$ref": "#/$defs/a"} for name in "bcdefgh"}  # type: ignore[index]
    assert len(orjson.dumps(Sampler(schema, Clues("")).sample())) < 100_000


# --- tools -------------------------------------------------------------------------------------------


def call_config(mode: str, *allowed: str) -> dict[str, Any]:
    return {"functionCallingConfig": {"mode": mode, "allowedFunctionNames": list(allowed)}}


@pytest.mark.parametrize(
    ("asked", "fields", "called"),
    [
        ("What is the weather?", {}, []),
        ("Call get_weather", {}, ["get_weather"]),
        ("use the shell", {}, ["shell"]),
        ("a shell is a fine thing", {}, []),
        ("Use a tool", {}, ["shell"]),
        ("Use two tools", {}, ["shell", "get_weather"]),
        ("run `shell` and get_weather", {}, ["get_weather", "shell"]),
        ("call shell twice, in parallel", {"tools": [{"functionDeclarations": [SHELL]}]}, ["shell", "shell"]),
        ("Hi", {"toolConfig": call_config("ANY")}, ["shell"]),
        ("Hi", {"toolConfig": call_config("ANY", "get_weather")}, ["get_weather"]),
        ("Call get_weather", {"toolConfig": call_config("NONE")}, []),
        ("echo: use a tool", {}, []),
        ("Use a tool", {"tools": []}, []),
    ],
)
def test_tools_are_called_when_asked_for(asked: str, fields: dict[str, Any], called: list[str]) -> None:
    chunks = wire(said(asked, **{"tools": TOOLS, **fields}))
    assert [call["name"] for call in calls(chunks)] == called
    assert finishes(chunks) == ["STOP"]


def test_parallel_calls_come_one_per_chunk_and_only_the_first_is_signed() -> None:
    chunks = wire(said("Hi", tools=TOOLS), "demo-parallel")
    with_calls = [chunk["candidates"][0]["content"]["parts"] for chunk in chunks[:-1]]
    assert [len(each) for each in with_calls] == [1, 1]
    assert ["thoughtSignature" in each[0] for each in with_calls] == [True, False]
    assert base64.b64decode(with_calls[0][0]["thoughtSignature"], validate=True)


def test_arguments_satisfy_the_schema_and_come_from_the_prompt() -> None:
    for declaration in (WEATHER, {"name": "get_weather", "parameters": WEATHER["parametersJsonSchema"]}):
        body = said('get_weather for "New York", 5 days', tools=[{"functionDeclarations": [declaration]}])
        assert calls(wire(body)) == [{"name": "get_weather", "args": {"city": "New York", "days": 5}}]


def test_arguments_without_a_hint_are_sampled() -> None:
    assert calls(wire(said("Call get_weather", tools=TOOLS)))[0]["args"] == {"city": "Paris", "days": 2}


@pytest.mark.parametrize(
    ("name", "schema", "arguments"),
    [
        ("run", {"properties": {"cmd": {"type": "string"}}}, {"cmd": "echo hello"}),
        ("run", SHELL["parametersJsonSchema"], {"command": ["echo", "hello"]}),
        ("read_file", {"properties": {"path": {"type": "string"}}}, {"path": "README.md"}),
        ("Read", {"properties": {"filePath": {"type": "string"}}}, {"filePath": "README.md"}),
        ("list", {"properties": {"dir_path": {"type": "string"}}}, {"dir_path": "."}),
        ("delete_file", {"properties": {"path": {"type": "string"}}}, {"path": WRITTEN_PATH}),
        (
            "put",
            {"properties": {"file": {}, "content": {"const": "x"}}},
            {"file": WRITTEN_PATH, "content": "x"},
        ),
        ("noop", None, {}),
    ],
)
def test_a_call_that_is_run_does_no_harm(name: str, schema: Any, arguments: dict[str, Any]) -> None:
    declaration = {"name": name} | ({"parametersJsonSchema": schema} if schema else {})
    body = said('"rm -rf /" now', tools=[{"functionDeclarations": [declaration]}])
    assert calls(wire(body, "demo-tool")) == [{"name": name, "args": arguments}]


@pytest.mark.parametrize("model", ["demo", "demo-tool", "demo-parallel"])
def test_after_results_it_sums_them_up(model: str) -> None:
    body = answered([{"functionCall": {"name": "get_weather", "args": {}}}] * 2)
    body["contents"][-1]["parts"][0]["functionResponse"]["response"] = {"sky": "x" * 500}
    answer = text(wire(body, model))
    assert '`get_weather` returned {"sky":"xxx' in answer
    assert '`get_weather` returned {"output":"fine"}' in answer
    assert len(answer) < 400


@pytest.mark.parametrize("model", ["demo-tool", "demo-parallel"])
def test_a_caller_without_tools_says_so(model: str) -> None:
    assert "declares none" in text(wire(said("Hi"), model))


# --- strict ------------------------------------------------------------------------------------------

SIGNATURE = signatures.mint(b"test")
UNSIGNED = {"functionCall": {"name": "get_weather", "args": {}}}
SIGNED = UNSIGNED | {"thoughtSignature": SIGNATURE}
ANSWERED = {"functionResponse": {"name": "get_weather", "response": {"output": "fine"}}}
USER = {"role": "user", "parts": [{"text": "What is the weather?"}]}


def turn(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def answered(model_parts: list[dict[str, Any]]) -> dict[str, Any]:
    responses = [orjson.loads(orjson.dumps(ANSWERED)) for part in model_parts if "functionCall" in part]
    return {"contents": [USER, turn("model", *model_parts), turn("user", *responses)], "tools": TOOLS}


ORDER = "Please ensure that "
REFUSED: list[tuple[str, list[dict[str, Any]]]] = [
    ("* GenerateContentRequest.contents: contents is not specified", []),
    ("* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.", [USER, turn("user")]),
    (
        "* GenerateContentRequest.contents[0].parts[1].data: required oneof field 'data' must have one "
        "initialized field",
        [turn("user", {"text": "Hi"}, {"text": ""})],
    ),
    ("Please use a valid role: user, model.", [turn("tool", {"text": "Hi"})]),
    (
        ORDER + "function call turn comes immediately after a user turn or after a function response turn.",
        [turn("model", SIGNED), turn("user", ANSWERED)],
    ),
    (
        ORDER + "function call turn comes immediately after a user turn or after a function response turn.",
        [USER, turn("model", {"text": "Well"}), turn("model", SIGNED), turn("user", ANSWERED)],
    ),
    (
        ORDER + "function response turn comes immediately after a function call turn.",
        [turn("user", ANSWERED)],
    ),
    (
        ORDER + "the number of function response parts is equal to the number of function call parts of the "
        "function call turn.",
        [USER, turn("model", SIGNED, UNSIGNED), turn("user", ANSWERED)],
    ),
    (
        ORDER + "the number of function response parts is equal to the number of function call parts of the "
        "function call turn.",
        [USER, turn("model", SIGNED), USER],
    ),
    ("Requests ending with a model turn are not supported.", [USER, turn("model", {"text": "So"})]),
    (
        "Invalid value at 'contents[1].parts[0].thought_signature' (TYPE_BYTES), Base64 decoding failed for \"a?\"",
        [USER, turn("model", UNSIGNED | {"thoughtSignature": "a?"}), turn("user", ANSWERED)],
    ),
    (
        "Corrupted thought signature.",
        [USER, turn("model", {"text": "Hm", "thoughtSignature": "Zm9yZWlnbg=="}), USER],
    ),
    (
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
        "correctly, and missing thought_signature may lead to degraded model performance. Additional data, "
        "function call `default_api:get_weather` , position 2. Please refer to "
        "https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
        [USER, turn("model", UNSIGNED), turn("user", ANSWERED)],
    ),
    (
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
        "correctly, and missing thought_signature may lead to degraded model performance. Additional data, "
        "function call `default_api:get_weather` , position 4. Please refer to "
        "https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
        [
            USER,
            turn("model", SIGNED),
            turn("user", ANSWERED, {"text": "Go on"}),
            turn("model", UNSIGNED),
            turn("user", ANSWERED),
        ],
    ),
]


@pytest.mark.parametrize(("message", "contents"), REFUSED)
def test_strict_refuses_what_gemini_refuses_in_its_words(
    message: str, contents: list[dict[str, Any]]
) -> None:
    error = refusal({"contents": contents}, "demo-strict")
    assert (error["status"], error["message"]) == ("INVALID_ARGUMENT", message)
    assert wire({"contents": contents})


def test_strict_checks_instructions_and_names_too() -> None:
    hollow = refusal(said("Hi", systemInstruction={"parts": [{"text": ""}]}), "demo-strict")
    assert hollow["message"].startswith("* GenerateContentRequest.system_instruction.parts[0].data: ")
    misnamed = refusal(said("Hi", tools=[{"functionDeclarations": [{"name": "21st"}]}]), "demo-strict")
    assert "Invalid function name. Must start with a letter or an underscore." in misnamed["message"]


def test_every_strict_rule_is_tested() -> None:
    patterns = [re.sub(r"\\{\w+\\}", ".*", re.escape(rule.message)) for rule in RULES]
    tested = {message for message, _ in REFUSED}
    unmatched = [pattern for pattern in patterns if not any(re.fullmatch(pattern, each) for each in tested)]
    assert len(unmatched) == 2  # instructions and names, tested apart


@pytest.mark.parametrize(
    "model_parts",
    [
        [SIGNED],
        [SIGNED, UNSIGNED],
        [{"text": "Let me see."}, SIGNED],
        [{"text": "", "thought": True, "thoughtSignature": SIGNATURE}, UNSIGNED],
        [UNSIGNED | {"thoughtSignature": "skip_thought_signature_validator"}],
        [UNSIGNED | {"thoughtSignature": "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}],
        [UNSIGNED | {"thoughtSignature": SIGNATURE.replace("+", "-").replace("/", "_")}],
    ],
)
def test_strict_accepts_what_gemini_accepts(model_parts: list[dict[str, Any]]) -> None:
    assert wire(answered(model_parts), "demo-strict")


def test_strict_does_not_look_for_signatures_in_earlier_turns() -> None:
    body = answered([UNSIGNED])
    body["contents"] += [turn("model", {"text": "Fine."}), USER]
    assert wire(body, "demo-strict")


def test_a_conversation_with_strict_goes_on_when_it_is_echoed() -> None:
    body = said("Use two tools", tools=TOOLS)
    first = wire(body, "demo-strict")
    assert len({call["id"] for call in calls(first)}) == 2
    responses = [
        {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": "fine"}}}
        for call in calls(first)
    ]
    echoed = [part for part in parts(first) if part != {"text": ""}]
    body["contents"] += [turn("model", *echoed), turn("user", *responses)]
    assert "The tools have answered" in text(wire(body, "demo-strict"))


# --- misbehaviour ------------------------------------------------------------------------------------

#: What becomes of each variant: the error raised, or the last finish reason.
OUTCOMES: dict[str, type[errors.BridgeError] | str | None] = {
    **dict.fromkeys(("think", "tool", "parallel", "strict", "slow", "drip", "burst", "huge"), "STOP"),
    **dict.fromkeys(("early-stop", "usage-late", "empty", "signature-text", "signature-thought"), "STOP"),
    **dict.fromkeys(("code", "image", "grounding", "unicode"), "STOP"),
    **dict.fromkeys(("stall", "cut", "nofinish", "blocked"), None),
    **dict.fromkeys(("starved", "length"), "MAX_TOKENS"),
    "continuation": "CONTINUATION",
    "safety": "SAFETY",
    "recitation": "RECITATION",
    "malformed-call": "MALFORMED_FUNCTION_CALL",
    "unexpected-call": "UNEXPECTED_TOOL_CALL",
    "unknown-finish": "SOMETHING_NEW",
    "400": errors.UpstreamRefused,
    "badkey": errors.UpstreamMisconfigured,
    "overflow": errors.ContextOverflow,
    "403": errors.UpstreamMisconfigured,
    "404": errors.UnknownModel,
    "429": errors.UpstreamRateLimited,
    "429-day": errors.UpstreamRateLimited,
    "500": errors.UpstreamUnreachable,
    "html": errors.UpstreamUnreachable,
    "503": errors.UpstreamOverloaded,
    "504": errors.UpstreamTimeout,
    "drop": errors.UpstreamTruncated,
    "midstream-error": errors.UpstreamOverloaded,
    "midstream-error-data": errors.UpstreamOverloaded,
    "garbage": errors.UpstreamMalformed,
}


def test_every_variant_has_an_outcome() -> None:
    assert OUTCOMES.keys() == FAULTS.keys()


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("way", ["model", "prompt"])
def test_every_variant_is_reached_by_model_and_by_prompt(name: str, way: str) -> None:
    prompt, model = (
        ("Hello", f"demo-{name}") if way == "model" else (f"Hello [demo:{name}]", "gemini-2.5-pro")
    )
    chunks, error = play(said(prompt, tools=TOOLS), model)
    reasons = [each.finish_reason for chunk in chunks for each in chunk.candidates if each.finish_reason]
    outcome = OUTCOMES[name]
    if isinstance(outcome, type):
        assert type(error) is outcome
    else:
        assert error is None
        assert (reasons or [None])[-1] == outcome


def test_the_model_name_comes_before_the_prompt() -> None:
    assert finishes(wire(said("[demo:429] Hello"), "demo-length")) == ["MAX_TOKENS"]


def test_a_mark_counts_until_the_user_speaks_again() -> None:
    body = answered([SIGNED])
    body["contents"][0] = turn("user", {"text": "[demo:length] Hello"})
    assert finishes(wire(body)) == ["MAX_TOKENS"]
    body["contents"] += [turn("model", {"text": "So"}), turn("user", {"text": "And now?"})]
    assert finishes(wire(body)) == ["STOP"]


@pytest.mark.parametrize("name", ["cut", "drop", "midstream-error", "midstream-error-data", "garbage"])
def test_a_broken_stream_begins_well(name: str) -> None:
    chunks, _ = play(said("echo: one two three four five six seven eight"), f"demo-{name}")
    shown = "".join(str(part.data) for chunk in chunks for each in chunk.candidates for part in each.parts)
    assert shown
    assert "one two three four five six seven eight".startswith(shown)
    assert not any(each.finish_reason for chunk in chunks for each in chunk.candidates)


def test_slow_waits_a_second_and_stall_ten_minutes() -> None:
    slow, stall = (list(server.answer(f"demo-{name}", said("Hi")).body) for name in ("slow", "stall"))
    assert set(slow[::2]) == {1.0}
    assert [isinstance(item, bytes) for item in stall] == [True, False]
    assert stall[-1] == STALL_SECONDS


def test_drip_sends_single_bytes_of_the_same_stream() -> None:
    dripped = list(server.answer("demo-drip", said("Hi")).body)
    assert {len(item) for item in dripped if isinstance(item, bytes)} == {1}
    plain, _ = play(said("Hi"), "demo")
    dripping, _ = play(said("Hi"), "demo-drip")
    assert [chunk.candidates for chunk in dripping] == [chunk.candidates for chunk in plain]


def test_burst_arrives_as_one_batch() -> None:
    batches = list(DemoUpstream(pace=0).stream(request_from_json("demo-burst", said("Hi"))))
    assert [len(batch) for batch in batches] == [BURST_CHUNKS]


def test_huge_is_one_chunk_of_ten_megabytes() -> None:
    chunks, _ = play(said("Hi"), "demo-huge")
    assert len(chunks) == 1
    assert len(str(chunks[0].candidates[0].parts[0].data)) == HUGE_CHARACTERS


def test_a_bare_error_is_pretty_printed_json_without_data() -> None:
    last = [
        item for item in server.answer("demo-midstream-error", said("Hi")).body if isinstance(item, bytes)
    ][-1]
    assert last.startswith(b'{\n  "error": {\n    "code": 503,')


def test_quota_refusals_say_when_to_come_back() -> None:
    for name, retry_after in (("429", 7), ("429-day", 300)):
        _, error = play(said("Hi"), f"demo-{name}")
        assert error is not None
        assert error.retry_after_seconds == retry_after


def test_overflow_names_both_numbers() -> None:
    _, error = play(said("Hi"), "demo-overflow")
    assert str(error) == "prompt is too long: 1048577 tokens > 1048576 maximum"


def test_usage_late_comes_alone_and_last() -> None:
    *before, last = wire(said("Hi"), "demo-usage-late")
    assert not any("usageMetadata" in chunk for chunk in before)
    assert "candidates" not in last
    assert last["usageMetadata"]["totalTokenCount"] > 0


def test_an_early_stop_is_empty_and_followed_by_the_answer() -> None:
    chunks = wire(said("echo: late"), "demo-early-stop")
    assert finishes(chunks) == ["STOP", "STOP"]
    assert "parts" not in chunks[0]["candidates"][0]["content"]
    assert text(chunks) == "late"


def test_blocked_has_feedback_and_no_candidates() -> None:
    (chunk,) = wire(said("Hi"), "demo-blocked")
    assert chunk["promptFeedback"]["blockReason"] == "SAFETY"
    assert "candidates" not in chunk


def test_thinking_ends_with_an_empty_signed_part() -> None:
    *_, last = parts(wire(said("Hi"), "demo-think"))
    assert last["text"] == ""
    assert signatures.is_ours(last["thoughtSignature"])
    assert "thought" not in last


def test_signed_text_is_visible_text() -> None:
    *_, last = parts(wire(said("echo: seen"), "demo-signature-text"))
    assert last.keys() == {"text", "thoughtSignature"}
    assert last["text"] == "seen"


def test_a_signed_thought_leaves_the_call_unsigned() -> None:
    thought, call, _ = parts(wire(said("Call get_weather", tools=TOOLS), "demo-signature-thought"))
    assert thought.keys() == {"text", "thought", "thoughtSignature"}
    assert call.keys() == {"functionCall"}


def test_the_two_halves_of_a_continuation_are_the_answer() -> None:
    body = said("echo: " + "word " * 40)
    first = wire(body, "demo-continuation")
    token = first[-1]["candidates"][0]["continuationToken"]
    second = wire({**body, "continuationToken": token}, "demo-continuation")
    assert finishes(second) == ["STOP"]
    assert text(first) + text(second) == ("word " * 40).strip()


def test_other_parts_survive_the_decoder() -> None:
    for name in ("code", "image", "grounding", "unicode"):
        sent = wire(said("Hi"), f"demo-{name}")
        received, _ = play(said("Hi"), f"demo-{name}")
        assert [chunk_to_json(chunk) for chunk in received] == sent
    assert "\u2028" in text(wire(said("Hi"), "demo-unicode"))


def test_the_picture_is_a_valid_png() -> None:
    chunks, _ = play(said("Hi"), "demo-image")
    assert isinstance(chunks[-1].candidates[0].parts[0].data, InlineData)
    data = base64.b64decode(PNG, validate=True)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, kinds = 8, []
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        (checksum,) = struct.unpack(">I", data[place + 8 + length : place + 12 + length])
        assert checksum == zlib.crc32(data[place + 4 : place + 8 + length])
        kinds.append(kind)
        place += 12 + length
    assert kinds == [b"IHDR", b"IDAT", b"IEND"]


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


def test_calls_arrive_as_calls() -> None:
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


def test_a_stream_closed_before_it_began_says_nothing() -> None:
    stream = DemoUpstream().stream(request_from_json("demo-drop", said("Hi")))
    stream.close()
    assert list(stream) == []


def test_pace_stretches_the_pauses() -> None:
    began = time.monotonic()
    list(DemoUpstream(pace=0.01).stream(request_from_json("demo-slow", said("echo: hi"))))
    assert 0.01 <= time.monotonic() - began < 0.9


def test_what_json_cannot_hold_is_the_clients_fault() -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(errors.InvalidRequest):
        DemoUpstream().stream(request_from_json("demo", said("Hi", extra=deep)))
