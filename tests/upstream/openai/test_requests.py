"""The bodies that each dialect gets: messages, tools, settings, and what is refused or counted as lost."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from bridge.errors import InvalidRequest
from bridge.gemini.losses import SETTINGS_NOT_SENT, THINKING_AMOUNT
from bridge.gemini.types import (
    GOOGLE_SEARCH,
    Content,
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    OtherData,
    Part,
    Tool,
)
from bridge.upstream.ollama import request as ollama
from bridge.upstream.openai.dialects import DIALECTS
from bridge.upstream.openai.request import chat_body, losses_of

HELLO = Content("user", (Part("Hello"),))
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
LOOK = FunctionDeclaration("look", "Look.", SCHEMA)
LIST = FunctionDeclaration("list", "List.")
TOOLS = (Tool((LOOK, LIST)),)
PICTURE = InlineData("image/png", "aGk=")
HISTORY = (
    HELLO,
    Content(
        "model",
        (
            Part("Hm.", thought=True),
            Part("I look."),
            Part(FunctionCall("look", {"at": "/"})),
            Part(FunctionCall("look", {"at": "/a"})),
        ),
    ),
    Content(
        "user",
        (
            Part(FunctionResponse("look", {"output": "x"}, media=(PICTURE,))),
            Part(FunctionResponse("look", {"n": 1})),
            Part("And?"),
        ),
    ),
)


def body(*contents: Content, dialect: str = "vllm", **fields: Any) -> dict[str, Any]:
    request = GenerateRequest("models/qwen3", contents or (HELLO,), **fields)
    written = chat_body(request, DIALECTS[dialect], "Upstream qwen")
    result: dict[str, Any] = orjson.loads(orjson.dumps(written, default=dict))
    return result


def of_ollama(*contents: Content, **fields: Any) -> dict[str, Any]:
    request = GenerateRequest("qwen3", contents or (HELLO,), **fields)
    written = ollama.chat_body(request, 8192, thinks=True, server="Upstream qwen")
    result: dict[str, Any] = orjson.loads(orjson.dumps(written, default=dict))
    return result


def losses(dialect: str = "vllm", **fields: Any) -> tuple[str, ...]:
    return losses_of(GenerateRequest("qwen3", (HELLO,), **fields), DIALECTS[dialect])


def test_a_plain_request() -> None:
    assert body(system=Content(None, (Part("Be brief."), Part("Be kind.")))) == {
        "model": "qwen3",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief.\n\nBe kind."},
            {"role": "user", "content": "Hello"},
        ],
    }


def test_a_history_with_calls_results_and_media_of_a_result() -> None:
    first, second = "call_1", "call_2"
    assert body(*HISTORY, dialect="openai")["messages"] == [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": first, "type": "function", "function": {"name": "look", "arguments": '{"at":"/"}'}},
                {"id": second, "type": "function", "function": {"name": "look", "arguments": '{"at":"/a"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": first, "content": "x"},
        {"role": "tool", "tool_call_id": second, "content": '{"n":1}'},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                {"type": "text", "text": "And?"},
            ],
        },
    ]


def test_results_are_paired_with_calls_by_id_in_any_order() -> None:
    calls = (Part(FunctionCall("look", {}, "a")), Part(FunctionCall("look", {}, "b")))
    results = (Part(FunctionResponse("look", {"n": 2}, "b")), Part(FunctionResponse("look", {"n": 1}, "a")))
    told = body(HELLO, Content("model", calls), Content("user", results))["messages"]
    assert [message["tool_call_id"] for message in told[2:]] == ["b", "a"]


def test_ids_stay_the_same_when_the_history_grows() -> None:
    more = (*HISTORY, Content("model", (Part(FunctionCall("list", {})),)))
    assert body(*more)["messages"][: len(body(*HISTORY)["messages"])] == body(*HISTORY)["messages"]


def test_mistral_gets_ids_of_nine_characters_and_its_own_ids_back() -> None:
    calls = (Part(FunctionCall("look", {}, "call_0123456789")), Part(FunctionCall("look", {}, "AbC123xyz")))
    results = tuple(Part(FunctionResponse("look", {}, part.data.id)) for part in calls)  # type: ignore[union-attr]
    contents = (HELLO, Content("model", calls), Content("user", results))
    told = body(*contents, dialect="mistral")["messages"]
    made, own = (call["id"] for call in told[1]["tool_calls"])
    assert own == "AbC123xyz"
    assert len(made) == 9
    assert made.isalnum()
    assert [message["tool_call_id"] for message in told[2:]] == [made, own]
    assert body(*contents, dialect="mistral")["messages"] == told


@pytest.mark.parametrize(
    ("dialect", "field"),
    [
        ("vllm", "reasoning"),
        ("sglang", "reasoning_content"),
        ("deepseek", "reasoning_content"),
        ("dashscope", "reasoning_content"),
        ("openrouter", "reasoning"),
        ("llamacpp", "reasoning_content"),
        ("openai", None),
        ("mistral", None),
        ("lmstudio", None),
        ("azure", None),
    ],
)
def test_thoughts_go_back_beside_calls_if_the_server_wants_them(dialect: str, field: str | None) -> None:
    history = (HELLO, Content("model", (Part("Hm.", thought=True), Part(FunctionCall("look", {})))))
    answer = body(*history, dialect=dialect)["messages"][1]
    assert {name: value for name, value in answer.items() if "reasoning" in name} == (
        {field: "Hm."} if field else {}
    )
    assert answer["content"] == ("" if field else None)


def test_the_same_thoughts_do_not_go_back_without_calls() -> None:
    answer = body(HELLO, Content("model", (Part("Hm.", thought=True), Part("So."))))["messages"][1]
    assert answer == {"role": "assistant", "content": "So."}


def test_media() -> None:
    parts = (
        Part("See"),
        Part(FileData("https://example.com/a.png", "image/png")),
        Part(InlineData("audio/wav", "aGk=")),
        Part(InlineData("application/pdf", "aGk=")),
        Part(InlineData("text/plain", "aGk=")),
    )
    (message,) = body(Content("user", parts), dialect="openai")["messages"]
    assert message["content"] == [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        {
            "type": "file",
            "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,aGk="},
        },
        {"type": "text", "text": "hi"},
    ]


@pytest.mark.parametrize(
    ("dialect", "data"),
    [
        ("deepseek", PICTURE),
        ("vllm", InlineData("video/mp4", "aGk=")),
        ("mistral", InlineData("audio/wav", "aGk=")),
        ("lmstudio", FileData("https://example.com/a.png", "image/png")),
        ("vllm", FileData("gs://bucket/a.png", "image/png")),
        ("vllm", FileData("https://example.com/a.pdf", "application/pdf")),
        ("vllm", InlineData("text/plain", "/w==")),
    ],
)
def test_media_that_a_server_does_not_take_are_refused(dialect: str, data: Any) -> None:
    with pytest.raises(InvalidRequest):
        body(Content("user", (Part(data),)), dialect=dialect)


def test_the_error_about_an_address_names_the_clients_field() -> None:
    with pytest.raises(InvalidRequest) as caught:
        body(Content("user", (Part(FileData("https://example.com/a.mp4", "video/mp4", param="messages.0")),)))
    assert caught.value.param == "messages.0"


def test_code_that_gemini_ran_stays_in_the_history_as_text() -> None:
    ran = (
        Part(OtherData("executableCode", {"language": "PYTHON", "code": "print(1)"})),
        Part(OtherData("codeExecutionResult", {"outcome": "OUTCOME_OK", "output": "1"})),
    )
    assert (
        body(HELLO, Content("model", ran))["messages"][1]["content"]
        == "\n```python\nprint(1)\n```\n\n```\n1\n```\n"
    )


def test_tools_and_their_schemas() -> None:
    old = FunctionDeclaration(
        "old",
        extra={
            "parameters": {"type": "OBJECT", "properties": {"type": {"type": "STRING", "nullable": True}}}
        },
    )
    written = body(tools=(Tool((LOOK, LIST, old)),))["tools"]
    assert [tool["function"] for tool in written] == [
        {"name": "look", "description": "Look.", "parameters": SCHEMA},
        {"name": "list", "description": "List.", "parameters": {"type": "object", "properties": {}}},
        {
            "name": "old",
            "parameters": {"type": "object", "properties": {"type": {"type": ["string", "null"]}}},
        },
    ]


@pytest.mark.parametrize(
    ("dialect", "config", "choice", "tools"),
    [
        ("vllm", {}, None, 2),
        ("vllm", {"mode": "AUTO"}, None, 2),
        ("vllm", {"mode": "NONE"}, "none", 2),
        ("vllm", {"mode": "ANY"}, "required", 2),
        ("mistral", {"mode": "ANY"}, "any", 2),
        ("dashscope", {"mode": "ANY"}, "auto", 2),
        (
            "vllm",
            {"mode": "ANY", "allowedFunctionNames": ["look"]},
            {"type": "function", "function": {"name": "look"}},
            1,
        ),
        ("llamacpp", {"mode": "ANY", "allowedFunctionNames": ["look"]}, "required", 1),
        ("vllm", {"mode": "ANY", "allowedFunctionNames": ["look", "list"]}, "required", 2),
        ("vllm", {"mode": "VALIDATED", "allowedFunctionNames": ["list"]}, None, 1),
    ],
)
def test_the_choice_of_a_tool(dialect: str, config: Any, choice: Any, tools: int) -> None:
    written = body(dialect=dialect, tools=TOOLS, tool_config={"functionCallingConfig": config})
    assert written.get("tool_choice") == choice
    assert len(written["tools"]) == tools


@pytest.mark.parametrize(
    "tool", [GOOGLE_SEARCH, Tool(extra={"codeExecution": {}}), Tool(extra={"urlContext": {}})]
)
def test_tools_of_google_are_refused(tool: Tool) -> None:
    for write in (body, of_ollama):
        with pytest.raises(InvalidRequest, match="has no built-in tool") as caught:
            write(tools=(tool,))
        assert caught.value.param == "tools"


def test_cached_content_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="cachedContent"):
        body(extra={"cachedContent": "cachedContents/1"})


SETTINGS = {
    "temperature": 0.5,
    "topP": 0.9,
    "topK": 40,
    "seed": 7,
    "stopSequences": ["X"],
    "maxOutputTokens": 100,
    "candidateCount": 1,
    "responseLogprobs": True,
    "logprobs": 2,
}


@pytest.mark.parametrize(
    ("dialect", "present", "absent"),
    [
        (
            "openai",
            {"max_completion_tokens": 100, "seed": 7, "logprobs": True, "top_logprobs": 2},
            ("top_k", "max_tokens"),
        ),
        ("azure", {"max_completion_tokens": 100}, ("top_k", "max_tokens")),
        ("vllm", {"max_tokens": 100, "top_k": 40, "stop": ["X"], "top_p": 0.9}, ("n",)),
        ("mistral", {"random_seed": 7}, ("seed", "top_k", "logprobs", "stream_options")),
        ("deepseek", {"max_tokens": 100}, ("seed", "top_k")),
        ("dashscope", {"top_k": 40}, ()),
    ],
)
def test_settings(dialect: str, present: dict[str, Any], absent: tuple[str, ...]) -> None:
    written = body(dialect=dialect, generation=SETTINGS)
    assert {name: written[name] for name in present} == present
    assert not [name for name in absent if name in written]


def test_settings_that_a_server_lacks_are_losses() -> None:
    assert losses(generation=SETTINGS) == ()
    assert losses("openai", generation={"topK": 4}) == (SETTINGS_NOT_SENT,)
    assert losses(extra={"safetySettings": []}) == (SETTINGS_NOT_SENT,)
    assert losses(service_tier="flex") == (SETTINGS_NOT_SENT,)
    assert losses(generation={"thinkingConfig": {"thinkingBudget": 5}}) == ()
    no_switch = ollama.losses_of(GenerateRequest("m", (HELLO,), generation={"responseLogprobs": True}))
    assert no_switch == (SETTINGS_NOT_SENT,)
    assert THINKING_AMOUNT not in no_switch


@pytest.mark.parametrize(
    ("dialect", "config", "fields"),
    [
        ("openai", {"thinkingBudget": 0}, {"reasoning_effort": "none"}),
        ("openai", {"thinkingBudget": 8192}, {"reasoning_effort": "medium"}),
        ("openai", {"thinkingLevel": "HIGH"}, {"reasoning_effort": "high"}),
        ("openai", {"includeThoughts": True}, {}),
        ("openai", {"thinkingBudget": -1}, {}),
        (
            "vllm",
            {"thinkingBudget": 0},
            {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
        ),
        (
            "llamacpp",
            {"thinkingBudget": 9},
            {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}},
        ),
        ("dashscope", {"thinkingBudget": 0}, {"enable_thinking": False}),
        ("dashscope", {"thinkingBudget": 512}, {"enable_thinking": True, "thinking_budget": 512}),
        ("deepseek", {"thinkingBudget": 0}, {"thinking": {"type": "disabled"}}),
        ("deepseek", {"thinkingBudget": 9}, {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("openrouter", {"thinkingBudget": 0}, {"reasoning": {"enabled": False}}),
        ("openrouter", {"thinkingBudget": 2048}, {"reasoning": {"max_tokens": 2048}}),
        ("mistral", {"thinkingBudget": 512}, {"reasoning_effort": "high"}),
    ],
)
def test_the_switch_for_thinking(dialect: str, config: Any, fields: dict[str, Any]) -> None:
    plain = body(dialect=dialect)
    written = body(dialect=dialect, generation={"thinkingConfig": config})
    assert {name: value for name, value in written.items() if name not in plain} == fields


WANTED = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}


def test_json_answers() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    assert body(generation=WANTED)["response_format"] == form
    old = {
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT", "properties": {"at": {"type": "STRING"}}},
    }
    assert body(generation=old)["response_format"] == form
    assert body(generation={"responseMimeType": "application/json"})["response_format"] == {
        "type": "json_object"
    }
    told = body(dialect="deepseek", generation=WANTED, system=Content(None, (Part("Be brief."),)))
    assert told["response_format"] == {"type": "json_object"}
    assert "Be brief." in told["messages"][0]["content"]
    assert '"properties":{"at"' in told["messages"][0]["content"]
    assert of_ollama(generation=WANTED)["format"] == SCHEMA
    assert of_ollama(generation={"responseMimeType": "application/json"})["format"] == "json"


def test_ollamas_body() -> None:
    written = of_ollama(
        *HISTORY,
        tools=TOOLS,
        generation={**SETTINGS, "thinkingConfig": {"thinkingBudget": 0}},
    )
    assert written["options"] == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "seed": 7,
        "stop": ["X"],
        "num_predict": 100,
        "num_ctx": 8192,
    }
    assert written["think"] is False
    assert written["truncate"] is False
    assert [tool["function"]["name"] for tool in written["tools"]] == ["look", "list"]
    assert written["messages"][1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "thinking": "Hm.",
            "tool_calls": [
                {"function": {"name": "look", "arguments": {"at": "/"}}},
                {"function": {"name": "look", "arguments": {"at": "/a"}}},
            ],
        },
        {"role": "tool", "content": "x", "tool_name": "look"},
        {"role": "tool", "content": '{"n":1}', "tool_name": "look"},
        {"role": "user", "content": "And?", "images": ["aGk="]},
    ]


def test_ollama_gets_no_tools_if_calls_are_forbidden() -> None:
    assert "tools" not in of_ollama(tools=TOOLS, tool_config={"functionCallingConfig": {"mode": "NONE"}})


def test_ollama_takes_images_in_base64_only() -> None:
    with pytest.raises(InvalidRequest):
        of_ollama(Content("user", (Part(FileData("https://example.com/a.png", "image/png")),)))
