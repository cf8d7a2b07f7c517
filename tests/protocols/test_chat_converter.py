"""Any JSON of a chat client is refused with the field named, or becomes a request that Gemini accepts."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from gemini_rules import broken_request_rules, calls, responses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from marshmallow import ValidationError
from transcripts import ForgetfulSignatureStore, counting_ids

from bridge.errors import InvalidRequest
from bridge.gemini.model_adapter import GENERATED_ID_PREFIX, adapt_request
from bridge.gemini.model_capabilities import LEVELS, ModelCapabilities
from bridge.gemini.signatures import seal
from bridge.gemini.types import MODEL, USER, Content, FunctionCall, FunctionResponse, GenerateRequest, Part
from bridge.gemini.wire import request_to_json
from bridge.protocols.base import Caller, ConvertedRequest
from bridge.protocols.openai_chat.converter import to_gemini
from bridge.protocols.openai_chat.schema import ChatSchema
from bridge.upstream.payloads import request_bytes

Body = dict[str, Any]

OLD = ModelCapabilities(family="old", thinking_budget=(128, 32768), prefill=True)
NEW = ModelCapabilities(
    family="new", thinking_levels=LEVELS, needs_signatures=True, tool_media=True, output_limit=65536
)

SLOW_TO_DRAW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def asked(body: Body) -> ConvertedRequest:
    return to_gemini(ChatSchema().load(body), Caller())


def fitted(request: GenerateRequest, capabilities: ModelCapabilities) -> GenerateRequest:
    return adapt_request(
        request, "gemini-test", capabilities, ForgetfulSignatureStore(), counting_ids().new_id
    )[0]


def chat(*messages: Body, **fields: Any) -> Body:
    return {"model": "gpt-5", "messages": list(messages), **fields}


HELLO = {"role": "user", "content": "Hello."}
UNNAMED = "a field without a name"


def assistant(**fields: Any) -> Body:
    return {"role": "assistant", "content": "Well.", **fields}


def calling(call_id: str = "1", name: str = "f", **fields: Any) -> Body:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}, **fields}


def tool(call_id: str, content: Any = "fine") -> Body:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def refusal(body: Body) -> str | None:
    """Return the refused field, or None if the request is valid."""
    try:
        asked(body)
    except ValidationError as refused:
        return str(next(iter(refused.messages)))
    except InvalidRequest as refused:
        return refused.param or UNNAMED
    return None


def check(body: Body) -> None:
    """Check that the body is refused with its field named, or accepted for two very different models."""
    before = copy.deepcopy(body)
    refused = refusal(body)
    assert body == before
    assert refused != UNNAMED
    if refused is not None:
        return
    request = asked(body).request
    for capabilities in (OLD, NEW):
        ready = fitted(request, capabilities)
        assert broken_request_rules(ready, capabilities.prefill) == []
        assert request_bytes(ready)
        named = [each for turn in ready.contents for each in (*calls(turn), *responses(turn))]
        assert not any(each.id and each.id.startswith(GENERATED_ID_PREFIX) for each in named)
        signatures = [part.signature for turn in ready.contents for part in turn.parts]
        assert not any(signature and signature.startswith("gb1:") for signature in signatures)


# --- any JSON in any field ---------------------------------------------------------------------------

LEAVES = st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from([0.5, 1e308]) | st.text(max_size=3)
JUNK = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def nearly(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Body]:
    """An object in which each field is valid, missing, or rarely arbitrary."""
    return st.fixed_dictionaries({}, optional={name: often(usual) for name, usual in fields.items()})


def often(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 19).flatmap(lambda draw: JUNK if draw == 13 else usual)


def some(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(often(items), max_size=4)


TEXT = st.sampled_from(["", " ", "a", "Hello.", "\n\n"])
IDS = st.sampled_from(["", "1", "2", f"{GENERATED_ID_PREFIX}1"])
NAMES = st.sampled_from(["f", "g", "shell", "a tool", "", "x" * 70])
URLS = st.sampled_from(
    ["data:image/png;base64,AAAA", "gs://b/o", "https://example.com/a.png", "data:", "", "data:a/b;base64,?"]
)
ARGUMENTS = st.sampled_from(["{}", "", '{"a": 1}', "[1]", "nonsense", '"text"', "null", '{"a": "\\ud800"}'])
SIGNATURES = st.sampled_from([seal("c2ln", "old"), seal("c2ln", "new"), "c2ln", "", "not base64!"])
GOOGLE = nearly(thought_signature=SIGNATURES)
EXTRA = nearly(google=GOOGLE)

LAYOUT_ENTRIES = nearly(
    text=st.integers(-1, 7),
    call=st.booleans(),
    image=st.booleans(),
    thought=st.booleans(),
    thoughtSignature=SIGNATURES,
    functionCall=nearly(name=NAMES, args=st.just({}), id=IDS),
    functionResponse=nearly(name=NAMES, response=st.just({}), id=IDS),
    inlineData=st.just({"mimeType": "image/png", "data": "AAAA"}),
)
PLAIN_ENTRIES = st.sampled_from(
    [{"text": 6}, {"text": 0, "thoughtSignature": seal("c2ln", "old")}, {"call": True}, {"image": True}]
)
LAYOUTS = nearly(google=nearly(parts=some(PLAIN_ENTRIES | LAYOUT_ENTRIES), thought_signature=SIGNATURES))

GOOD_PARTS = st.sampled_from(
    [
        {"type": "text", "text": "a"},
        {"type": "text", "text": ""},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
)
RESULTS = TEXT | st.sampled_from([None, '{"a": 1}', "{"]) | st.lists(GOOD_PARTS, max_size=3)
CONTENT_PARTS = (
    st.fixed_dictionaries({"type": st.just("text"), "text": often(TEXT)})
    | st.fixed_dictionaries({"type": st.just("image_url"), "image_url": often(URLS | nearly(url=URLS))})
    | nearly(
        type=st.sampled_from(["text", "refusal", "image_url", "video_url", "input_audio", "file", "odd"]),
        text=TEXT,
        refusal=TEXT,
        image_url=URLS | nearly(url=URLS),
        video_url=nearly(url=URLS),
        input_audio=nearly(format=st.sampled_from(["wav", "ogg"]), data=st.just("AAAA")),
        file=nearly(file_id=URLS, file_data=URLS | st.just("AAAA"), filename=TEXT),
    )
)
FUNCTION = nearly(name=NAMES, arguments=ARGUMENTS)
GOOD_CALLS = st.fixed_dictionaries(
    {"id": IDS, "type": st.just("function"), "function": often(st.fixed_dictionaries({"name": NAMES}))},
    optional={"extra_content": EXTRA},
)
ODD_CALLS = nearly(
    id=IDS,
    type=st.sampled_from(["function", "custom"]),
    function=FUNCTION,
    custom=nearly(name=NAMES, input=TEXT),
    extra_content=EXTRA,
)
IMAGES = st.fixed_dictionaries({"image_url": often(nearly(url=URLS))})
ASSISTANT = st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional={
        "content": often(TEXT | some(CONTENT_PARTS)),
        "reasoning_content": often(TEXT),
        "refusal": often(TEXT),
        "tool_calls": often(some(GOOD_CALLS | ODD_CALLS)),
        "function_call": often(FUNCTION),
        "images": often(some(IMAGES)),
        "audio": JUNK,
        "extra_content": often(LAYOUTS),
    },
)
MESSAGES = (
    ASSISTANT
    | st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "system", "developer"]),
            "content": often(TEXT | some(CONTENT_PARTS)),
        }
    )
    | st.fixed_dictionaries(
        {
            "role": st.just("tool"),
            "tool_call_id": often(IDS),
            "content": often(TEXT | some(CONTENT_PARTS)),
        }
    )
    | st.fixed_dictionaries({"role": st.just("function"), "name": often(NAMES), "content": often(TEXT)})
    | nearly(role=st.sampled_from(["user", "odd"]), content=TEXT)
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Body]:
    """Messages with results that are late, out of order, repeated or missing."""
    messages: list[Body] = []
    called: list[Body] = []
    for _ in range(draw(st.integers(1, 4))):
        made = draw(st.lists(st.tuples(IDS, NAMES), max_size=3))
        named = draw(st.none() | NAMES)
        messages.append(
            {
                "role": "assistant",
                "content": draw(TEXT | st.none()),
                "reasoning_content": draw(TEXT | st.none()),
                "tool_calls": [calling(call_id, name, extra_content=draw(EXTRA)) for call_id, name in made],
                "function_call": None if named is None else {"name": named, "arguments": draw(ARGUMENTS)},
                "extra_content": draw(LAYOUTS),
            }
        )
        called += [tool(call_id, draw(RESULTS)) for call_id, _ in made]
        called += [] if named is None else [{"role": "function", "name": named, "content": draw(TEXT)}]
        if called:
            messages += draw(st.lists(st.sampled_from(called), max_size=4))
        messages += draw(
            st.lists(st.builds(lambda said: {"role": "user", "content": said}, TEXT), max_size=2)
        )
    return messages


SCHEMAS = nearly(type=st.sampled_from(["object", "string"]), properties=st.just({"a": {"$ref": "#"}}))
DECLARED = nearly(name=NAMES, description=TEXT, parameters=SCHEMAS)
TOOLS = nearly(
    type=st.sampled_from(["function", "custom", "odd"]),
    function=DECLARED,
    custom=nearly(name=NAMES, description=TEXT, format=nearly(grammar=nearly(syntax=TEXT, definition=TEXT))),
    name=NAMES,
    parameters=SCHEMAS,
) | st.fixed_dictionaries({"type": st.just("function"), "function": st.fixed_dictionaries({"name": NAMES})})
CHOSEN = nearly(
    type=st.sampled_from(["function", "custom", "allowed_tools", "name", "type"]),
    function=nearly(name=NAMES),
    custom=nearly(name=NAMES),
    allowed_tools=nearly(
        mode=st.sampled_from(["auto", "required"]), tools=some(nearly(type=TEXT, function=nearly(name=NAMES)))
    ),
    name=NAMES,
)
CHOICES = st.sampled_from(["auto", "none", "required", "odd", ""]) | CHOSEN
EVERY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "tools": some(TOOLS),
    "functions": some(DECLARED),
    "tool_choice": CHOICES,
    "function_call": CHOICES,
    "web_search_options": st.just({}),
    "response_format": nearly(
        type=st.sampled_from(["text", "json_object", "json_schema", "odd"]),
        json_schema=nearly(name=TEXT, schema=SCHEMAS),
    ),
    "stop": TEXT | st.lists(TEXT, max_size=7) | st.lists(st.lists(TEXT, max_size=1), max_size=2),
    "stream": st.booleans(),
    "stream_options": nearly(include_usage=st.booleans()),
    "n": st.integers(0, 9),
    "seed": st.integers(-(2**63), 2**64 - 1),
    "max_tokens": st.integers(0, 2**40),
    "max_completion_tokens": st.integers(0, 2**40),
    "temperature": st.floats(-1, 3),
    "top_p": st.floats(0, 1),
    "top_k": st.integers(0, 99),
    "logprobs": st.booleans(),
    "top_logprobs": st.integers(0, 21),
    "logit_bias": st.just({}),
    "modalities": st.lists(st.sampled_from(["text", "audio"]), max_size=2),
    "reasoning_effort": st.sampled_from(["none", "minimal", "high", "xhigh", "max", "odd"]),
    "parallel_tool_calls": st.booleans(),
    "metadata": JUNK,
}
FIELDS = st.lists(st.sampled_from(sorted(EVERY_FIELD)), unique=True, max_size=4).flatmap(
    lambda names: st.fixed_dictionaries({name: often(EVERY_FIELD[name]) for name in names})
)


@SLOW_TO_DRAW
@given(body=st.dictionaries(st.sampled_from(["model", "messages", "tools", "stop", "x.y"]), JUNK) | JUNK)
def test_any_json_is_refused_with_the_field_named(body: Any) -> None:
    if isinstance(body, dict) and body.get("messages") and body.get("model"):
        check(body)
    else:
        with pytest.raises(ValidationError):
            asked(body)


@SLOW_TO_DRAW
@given(messages=st.lists(MESSAGES, min_size=1, max_size=6))
def test_any_messages_are_refused_or_become_a_legal_history(messages: list[Body]) -> None:
    check(chat(*messages))


@SLOW_TO_DRAW
@given(messages=conversations())
def test_any_conversation_becomes_a_legal_history(messages: list[Body]) -> None:
    assert refusal(chat(*messages)) is None
    check(chat(*messages))


@SLOW_TO_DRAW
@given(fields=FIELDS)
def test_any_other_fields_are_refused_or_accepted(fields: Body) -> None:
    check(chat(HELLO, **fields))


@SLOW_TO_DRAW
@given(messages=st.lists(MESSAGES | JUNK, min_size=1, max_size=4) | conversations(), fields=FIELDS, odd=JUNK)
def test_any_request_is_refused_or_legal_for_gemini(messages: list[Any], fields: Body, odd: Any) -> None:
    check({**chat(*messages), "metadata": odd, **fields})


@SLOW_TO_DRAW
@given(
    layout=some(
        LAYOUT_ENTRIES | PLAIN_ENTRIES | st.lists(st.lists(LEAVES, min_size=2, max_size=2), max_size=2)
    ),
    content=TEXT,
    reasoning=TEXT,
    calls=st.lists(GOOD_CALLS, max_size=2),
)
def test_any_layout_is_followed_or_ignored(
    layout: list[Any], content: str, reasoning: str, calls: list[Body]
) -> None:
    answer = {
        "role": "assistant",
        "content": content,
        "reasoning_content": reasoning,
        "tool_calls": calls,
        "extra_content": {"google": {"parts": layout}},
    }
    check(chat(HELLO, answer, HELLO))


# --- inputs that broke other gateways ----------------------------------------------------------------


REFUSED: dict[str, tuple[Body, str]] = {
    "a message that is none": (chat(HELLO, 5), "messages[1]"),
    "no role": (chat({"content": "a"}), "messages[0].role"),
    "a role that is a list": (chat({"role": ["user"], "content": "a"}), "messages[0].role"),
    "a strange role": (chat({"role": "narrator", "content": "a"}), "messages[0].role"),
    "a user without content": (chat({"role": "user", "content": None}), "messages[0].content"),
    "content that is an object": (chat({"role": "user", "content": {}}), "messages[0].content"),
    "a part that is text": (chat({"role": "user", "content": ["a"]}), "messages[0].content[0]"),
    "a part without a type": (chat({"role": "user", "content": [{}]}), "messages[0].content[0].type"),
    "a text that is null": (
        chat({"role": "user", "content": [{"type": "text", "text": None}]}),
        "messages[0].content[0].text",
    ),
    "an image in the system message": (
        chat({"role": "system", "content": [{"type": "image_url", "image_url": "gs://b/o"}]}),
        "messages[0].content",
    ),
    "calls in an object": (chat(assistant(tool_calls={"0": calling()})), "messages[0].tool_calls"),
    "a call that is null": (chat(assistant(tool_calls=[None])), "messages[0].tool_calls[0]"),
    "a call without an id": (chat(assistant(tool_calls=[calling(None)])), "messages[0].tool_calls[0].id"),
    "a call of nothing": (
        chat(assistant(tool_calls=[{"id": "1", "type": "function"}])),
        "messages[0].tool_calls[0].function",
    ),
    "arguments that are an object": (
        chat(assistant(tool_calls=[calling(function={"name": "f", "arguments": {}})])),
        "messages[0].tool_calls[0].function.arguments",
    ),
    "a freeform call without its text": (
        chat(assistant(tool_calls=[{"id": "1", "type": "custom", "custom": {"name": "f"}}])),
        "messages[0].tool_calls[0].custom.input",
    ),
    "images that are none": (chat(assistant(images=["a"])), "messages[0].images[0]"),
    "an image without an address": (chat(assistant(images=[{}])), "messages[0].images[0].image_url"),
    "a tool without a function": (
        chat(HELLO, tools=[{"type": "function", "function": None}]),
        "tools[0].function",
    ),
    "a tool without a name": (
        chat(HELLO, tools=[{"type": "function", "function": {}}]),
        "tools[0].function.name",
    ),
    "a tool that is null": (chat(HELLO, tools=[None]), "tools[0]"),
    "a freeform tool without a name": (
        chat(HELLO, tools=[{"type": "custom", "custom": {}}]),
        "tools[0].custom.name",
    ),
    "a freeform tool of nothing": (chat(HELLO, tools=[{"type": "custom"}]), "tools[0].custom"),
    "a tool twice": (chat(HELLO, tools=[{"name": "f"}], functions=[{"name": "f"}]), "tools"),
    "a choice that is a number": (chat(HELLO, tool_choice=7), "tool_choice"),
    "a choice that is a list": (chat(HELLO, tool_choice=["auto"]), "tool_choice"),
    "a choice of nothing": (chat(HELLO, tool_choice={}), "tool_choice.name"),
    "a choice of a tool that is not there": (
        chat(HELLO, tool_choice={"type": "function", "function": {"name": "f"}}),
        "tool_choice",
    ),
    "a call asked for without tools": (chat(HELLO, tool_choice="required"), "tool_choice"),
    "nested stops": (chat(HELLO, stop=[["a"]]), "stop"),
    "a stop that is an object": (chat(HELLO, stop={"a": 1}), "stop"),
    "a stop that is a number": (chat(HELLO, stop=5), "stop"),
    "too many answers": (chat(HELLO, n=9), "n"),
    "answers by half": (chat(HELLO, n=1.5), "n"),
    "an answer that is true": (chat(HELLO, n=True), "n"),
    "a format of nothing": (chat(HELLO, response_format={}), "response_format.type"),
    "a format without a schema": (
        chat(HELLO, response_format={"type": "json_schema"}),
        "response_format.json_schema",
    ),
    "a schema that is text": (
        chat(HELLO, response_format={"type": "json_schema", "json_schema": {"schema": "a"}}),
        "response_format.json_schema.schema",
    ),
    "a modality that is null": (chat(HELLO, modalities=[None]), "modalities"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_values_are_refused_with_the_field_named(name: str) -> None:
    body, param = REFUSED[name]
    assert refusal(body) == param


HARMLESS: dict[str, Body] = {
    "null wherever null may be": chat(
        assistant(content=None, tool_calls=None, function_call=None, images=None, refusal=None, audio=None),
        HELLO,
        **dict.fromkeys(
            [
                "n",
                "stop",
                "tools",
                "functions",
                "tool_choice",
                "function_call",
                "response_format",
                "seed",
                "stream",
            ]
        ),
        **dict.fromkeys(
            ["stream_options", "max_tokens", "temperature", "logit_bias", "modalities", "logprobs"]
        ),
    ),
    "strange signatures": chat(
        assistant(tool_calls=[calling(extra_content={"google": {"thought_signature": 7}})]), HELLO
    ),
    "strange extra content": chat(
        *(assistant(extra_content=odd) for odd in (7, "a", [], {"google": []})), HELLO
    ),
    "fields with dots in their names": chat(HELLO, **{"model.x": 1, "messages.0": 2, "": 3}),
    "only a system message": chat({"role": "system", "content": "Be kind."}),
    "only blanks": chat({"role": "user", "content": ""}, {"role": "system", "content": " "}),
    "an assistant who said nothing": chat(HELLO, {"role": "assistant"}),
    "a layout of nothing": chat(assistant(extra_content={"google": {"parts": []}}), HELLO),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_unusual_but_harmless_requests_pass(name: str) -> None:
    assert refusal(HARMLESS[name]) is None
    check(HARMLESS[name])


@pytest.mark.parametrize("choice", ["auto", "none"])
@pytest.mark.parametrize("fields", [{}, {"tools": []}, {"web_search_options": {}}])
@pytest.mark.parametrize("said", [(HELLO,), (assistant(tool_calls=[calling()]), HELLO)])
def test_a_tool_choice_without_functions_is_not_sent(
    choice: str, fields: Body, said: tuple[Body, ...]
) -> None:
    """Gemini's error: Function calling config is set without function_declarations."""
    check(chat(*said, tool_choice=choice, **fields))


LONE_ENTRIES = [
    {"text": 4},
    {"text": 6},
    {"text": -1},
    {"text": True},
    {"text": "Well"},
    {"text": 5, "thought": True},
    {"call": True},
    {"image": True},
    "text",
    5,
    None,
    [],
    ["ab"],
    [[1, 2]],
    [["text", 5]],
    {},
]


@pytest.mark.parametrize("entry", LONE_ENTRIES, ids=repr)
def test_a_layout_that_does_not_match_is_ignored_and_noted(entry: Any) -> None:
    request = asked(chat(assistant(extra_content={"google": {"parts": [entry]}})))
    assert request.request.contents == (Content(MODEL, (Part("Well."),)),)
    assert request.losses == ("chat.layout_does_not_fit",)


def test_a_layout_with_negative_counts_is_ignored() -> None:
    answer = assistant(extra_content={"google": {"parts": [{"text": -1}, {"text": 1}]}})
    request = asked(chat(answer))
    assert request.request.contents == (Content(MODEL, (Part("Well."),)),)
    assert request.losses == ("chat.layout_does_not_fit",)


def test_a_layout_with_an_invalid_last_entry_is_ignored() -> None:
    """An entry that is not an object must not add keys to a part that JSON cannot represent."""
    answer = assistant(extra_content={"google": {"parts": [{"text": 5}, [[1, 2]]]}})
    request = asked(chat(answer))
    assert request.request.contents == (Content(MODEL, (Part("Well."),)),)
    assert request.losses == ("chat.layout_does_not_fit",)


# --- converted messages ------------------------------------------------------------------------------


def contents_of(*messages: Body) -> tuple[Content, ...]:
    return asked(chat(*messages)).request.contents


def test_a_result_is_named_after_its_call() -> None:
    *_, answer = contents_of(HELLO, assistant(tool_calls=[calling("1", "f"), calling("2", "g")]), tool("2"))
    assert answer == Content(USER, (Part(FunctionResponse("g", {"result": "fine"}, "2")),))


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ("", {}),
        ("{}", {}),
        ('{"a": {"b": [1, null]}}', {"a": {"b": [1, None]}}),
        ("[1]", {"unparsed_arguments": [1]}),
        ("7", {"unparsed_arguments": 7}),
        ("nonsense", {"unparsed_arguments": "nonsense"}),
        ('{"a": ', {"unparsed_arguments": '{"a": '}),
        (None, {}),
    ],
)
def test_arguments_that_are_not_an_object_are_kept_under_one_key(arguments: str | None, args: Body) -> None:
    call = calling(function={"name": "f", "arguments": arguments})
    (content,) = contents_of(assistant(content=None, tool_calls=[call]))
    assert content.parts == (Part(FunctionCall("f", args, "1")),)


def test_assistant_text_in_parts_equals_assistant_text() -> None:
    """A client may split an answer into parts; it is the same answer."""
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo."}]
    (content,) = contents_of(assistant(content=parts))
    assert "".join(str(part.data) for part in content.parts) == "Hello."


def test_instructions_at_the_beginning_are_joined_by_a_blank_line() -> None:
    request = asked(
        chat(
            {"role": "system", "content": "One."},
            {"role": "developer", "content": [{"type": "text", "text": "Two."}]},
            {"role": "system", "content": ""},
            HELLO,
        )
    ).request
    assert request.system == Content(None, (Part("One.\n\nTwo."),))
    assert request.contents == (Content(USER, (Part("Hello."),)),)


def test_an_instruction_in_the_middle_stays_there_as_a_reminder() -> None:
    request = asked(
        chat({"role": "system", "content": "One."}, HELLO, {"role": "developer", "content": "Two."})
    ).request
    assert request.system == Content(None, (Part("One."),))
    reminder = Part("<system-reminder>\nTwo.\n</system-reminder>")
    assert request.contents == (Content(USER, (Part("Hello."),)), Content(USER, (reminder,)))


def nested(depth: int, inner: Any = 0) -> Any:
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    "body",
    [
        chat({"role": "user", "content": nested(500)}),
        chat(assistant(tool_calls=nested(500))),
        chat(assistant(extra_content=nested(500))),
        chat(assistant(extra_content={"google": {"parts": nested(500)}}), HELLO),
        chat(HELLO, stop=nested(500)),
        chat(HELLO, tool_choice=nested(500)),
        chat(HELLO, metadata=nested(500)),
        chat(HELLO, tools=[{"name": "f", "parameters": {"type": "object", "items": nested(500)}}]),
    ],
)
def test_deep_nesting_in_a_wrong_field_is_refused_or_ignored(body: Body) -> None:
    assert refusal(body) != UNNAMED


def test_a_schema_too_deep_for_json_is_refused_and_not_a_failure() -> None:
    body = chat(HELLO, tools=[{"name": "f", "parameters": {"type": "object", "default": nested(300)}}])
    ready = fitted(asked(body).request, OLD)
    with pytest.raises(InvalidRequest):
        request_bytes(ready)
    assert request_to_json(ready)


DEEP_LIST, DEEP_OBJECT = "[" * 300 + "]" * 300, '{"a":' * 300 + "1" + "}" * 300


@pytest.mark.parametrize("arguments", [DEEP_LIST, DEEP_OBJECT], ids=["list", "object"])
def test_arguments_and_results_too_deep_for_json_are_kept_as_text(arguments: str) -> None:
    """They stay in the history, so a refusal would end the client's session."""
    calls = [calling(function={"name": "f", "arguments": arguments})]
    ready = fitted(asked(chat(HELLO, assistant(tool_calls=calls), tool("1", arguments))).request, OLD)
    assert (
        arguments
        in orjson.loads(request_bytes(ready))["contents"][1]["parts"][1]["functionCall"]["args"].values()
    )
    assert ready.contents[2].parts[0].data == FunctionResponse("f", {"result": arguments}, "1")


@pytest.mark.parametrize(
    "tool",
    [
        {"type": nested(2000)},
        {"name": "f", "parameters": {"type": nested(2000)}},
        {
            "type": "custom",
            "custom": {"name": "f", "format": {"grammar": {"definition": "x", "syntax": nested(2000)}}},
        },
    ],
    ids=["kind", "type of its parameters", "syntax"],
)
def test_a_tool_with_a_too_deep_value_is_refused_or_accepted(tool: Body) -> None:
    """An error message that quotes the client's value must not raise."""
    refused = refusal(chat(HELLO, tools=[tool]))
    assert refused is None or refused.startswith("tools[0]")


@pytest.mark.parametrize("count", [True, "more", None, [0], 0.0])
def test_a_layout_with_an_invalid_count_is_ignored(count: Any) -> None:
    """Otherwise Gemini would get `"text": true`, or a text that is not in the message."""
    answer = assistant(extra_content={"google": {"parts": [{"text": 5}, {"text": count}]}})
    request = asked(chat(answer))
    assert request.request.contents == (Content(MODEL, (Part("Well."),)),)
    assert request.losses == ("chat.layout_does_not_fit",)
