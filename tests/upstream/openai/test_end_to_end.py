"""Servers of other vendors behind the real bridge, in every protocol, with tools over two turns."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import orjson
import pytest
import requests
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge
from scripted_chat import calls, choice, counted, end, line, lines, piece, sse, text
from scripted_gemini import CUT, Asked, Reply, ScriptedGemini

KEY = "sk-canary-0123456789abcdef"
LOCAL, OLLAMA = "qwen3-coder", "llama-local"
WHERE = {"at": "/tmp", "depth": 2}
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}, "depth": {"type": "integer"}}}
ROWS = """
[[upstream]]
name = "cellar"
kind = "openai"
dialect = "vllm"
base_url = "{address}/v1"
api_key = "env:CELLAR_KEY"
models = ["qwen3-*", "*"]
read_timeout = 5

[[upstream]]
name = "laptop"
kind = "ollama"
base_url = "{address}"
models = ["llama-*"]
"""


@dataclass
class Served:
    bridge: Bridge
    api: ScriptedGemini

    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.bridge.address}/v1", api_key="any", max_retries=0)

    def anthropic(self) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=self.bridge.address, api_key="any", max_retries=0)

    def post(self, path: str, body: Any, **options: Any) -> requests.Response:
        return requests.post(f"{self.bridge.address}{path}", json=body, timeout=60, **options)


@pytest.fixture(scope="module")
def _served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    api, config = ScriptedGemini(), tmp_path_factory.mktemp("named") / "config"
    shutil.copytree(ROOT / "config", config, ignore=shutil.ignore_patterns("local.toml"))
    (config / "upstreams.toml").write_text(ROWS.format(address=api.address))
    with gunicorn_bridge(
        BRIDGE_CONFIG_DIR=str(config),
        CELLAR_KEY=KEY,
        NO_PROXY="127.0.0.1",
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        BRIDGE_UPSTREAM__KEY_COOLDOWN="0",
        DEBUG="1",
    ) as bridge:
        yield Served(bridge, api)
    api.close()


@pytest.fixture
def served(_served: Served) -> Served:
    _served.api.forget()
    _served.api.will_answer(answer_of_an_agent)
    return _served


def answer_of_an_agent(asked: Asked) -> Reply:
    """First a thought, a text and a call; after the result of the call, a text that repeats the result."""
    if asked.path == "/tokenize":
        return Reply([b'{"count": 31}'])
    results = [message["content"] for message in asked.body["messages"] if message["role"] == "tool"]
    return Reply([ANSWERS[asked.path](results[-1] if results else None)])


def _chat(result: str | None) -> bytes:
    if result is not None:
        return sse(text("It says "), text(result), end("stop"), counted(20, 4))
    arguments = json.dumps(WHERE)
    return sse(
        choice({"role": "assistant", "reasoning": "Hm."}),
        text("I look."),
        calls(piece("look", "", index=0, id="call_vllm_1", type="function")),
        calls(piece(None, arguments[:9], index=0)),
        calls(piece(None, arguments[9:], index=0)),
        end(),
        counted(10, 8),
    )


def _ollama(result: str | None) -> bytes:
    last = line({}, done=True, done_reason="stop", prompt_eval_count=10, eval_count=8)
    if result is not None:
        return lines(line({"content": f"It says {result}"}), last)
    call = line({"tool_calls": [piece("look", WHERE)]})
    return lines(line({"thinking": "Hm."}), line({"content": "I look."}), call, last)


ANSWERS: dict[str, Callable[[str | None], bytes]] = {"/v1/chat/completions": _chat, "/api/chat": _ollama}

each_model = pytest.mark.parametrize("model", [LOCAL, OLLAMA])


def asked_messages(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.api.asked[-1].body["messages"]
    return found


@each_model
@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions(served: Served, model: str, *, stream: bool) -> None:
    client = served.openai()
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
    messages: list[Any] = [{"role": "user", "content": "Look."}]
    if stream:
        with client.chat.completions.stream(model=model, messages=messages, tools=tools) as events:
            message = events.get_final_completion().choices[0].message
    else:
        message = (
            client.chat.completions.create(model=model, messages=messages, tools=tools).choices[0].message
        )
    assert message.content == "I look."
    (call,) = message.tool_calls or []
    assert call.type == "function"
    assert json.loads(call.function.arguments) == WHERE
    messages += [
        message.model_dump(exclude_none=True, exclude={"parsed"}),
        {"role": "tool", "tool_call_id": call.id, "content": "a wall"},
    ]
    for each in messages[1].get("tool_calls", ()):
        each["function"].pop("parsed_arguments", None)
    told = client.chat.completions.create(model=model, messages=messages, tools=tools)
    assert told.choices[0].message.content == "It says a wall"
    assert told.usage is not None
    assert [message["role"] for message in asked_messages(served)] == ["user", "assistant", "tool"]


@each_model
@pytest.mark.parametrize("stream", [False, True])
def test_messages(served: Served, model: str, *, stream: bool) -> None:
    client = served.anthropic()
    given: dict[str, Any] = {
        "model": model,
        "max_tokens": 500,
        "tools": [{"name": "look", "input_schema": SCHEMA}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    messages: list[Any] = [{"role": "user", "content": "Look."}]
    if stream:
        with client.messages.stream(**given, messages=messages) as events:
            said = events.get_final_message()
    else:
        said = client.messages.create(**given, messages=messages)
    assert [block.type for block in said.content] == ["thinking", "text", "tool_use"]
    assert said.stop_reason == "tool_use"
    call = said.content[-1]
    assert call.input == WHERE
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "a wall"}
    messages += [
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in said.content]},
        {"role": "user", "content": [result]},
    ]
    told = client.messages.create(**given, messages=messages)
    assert told.content[-1].text == "It says a wall"
    assert [message["role"] for message in asked_messages(served)] == ["user", "assistant", "tool"]


@each_model
def test_responses(served: Served, model: str) -> None:
    client = served.openai()
    tools: Any = [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}]
    with client.responses.stream(model=model, input="Look.", tools=tools) as events:
        said = events.get_final_response()
    assert said.output_text == "I look."
    (call,) = (item for item in said.output if item.type == "function_call")
    assert json.loads(call.arguments) == WHERE
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "a wall"}
    told = client.responses.create(model=model, previous_response_id=said.id, input=[result], tools=tools)
    assert told.output_text == "It says a wall"
    assert [message["role"] for message in asked_messages(served)] == ["user", "assistant", "tool"]


@each_model
def test_the_native_protocol(served: Served, model: str) -> None:
    tools = [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": SCHEMA}]}]
    contents: list[Any] = [{"role": "user", "parts": [{"text": "Look."}]}]
    path = f"/v1beta/models/{model}:generateContent"
    said = served.post(path, {"contents": contents, "tools": tools}).json()["candidates"][0]["content"]
    (call,) = (part["functionCall"] for part in said["parts"] if "functionCall" in part)
    assert call["args"] == WHERE
    response = {"functionResponse": {"name": "look", "response": {"output": "a wall"}}}
    contents += [said, {"role": "user", "parts": [response]}]
    told = served.post(path, {"contents": contents, "tools": tools}).json()
    assert told["candidates"][0]["content"]["parts"][-1]["text"] == "It says a wall"
    assert told["usageMetadata"]["promptTokenCount"]


def test_signatures_of_gemini_do_not_reach_such_a_server(served: Served) -> None:
    call = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2lnbmVkIGJ5IGdlbWluaQ=="}
    response = {"functionResponse": {"name": "look", "response": {"output": "a wall"}}}
    contents = [
        {"role": "user", "parts": [{"text": "Look."}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [response]},
    ]
    served.post(f"/v1beta/models/{LOCAL}:generateContent", {"contents": contents})
    assert "c2lnbmVk" not in json.dumps(served.api.asked[-1].body)


def test_a_token_count_of_the_server_and_an_estimate_that_is_noted(served: Served) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    counted_by_server = served.post("/v1/messages/count_tokens", {**body, "model": LOCAL}).json()
    assert counted_by_server == {"input_tokens": 31}
    estimated = served.post("/v1/messages/count_tokens", {**body, "model": OLLAMA})
    assert estimated.json()["input_tokens"] < 10
    assert "usage.estimated" in json.dumps(
        served.bridge.request(request_id=estimated.headers["x-request-id"])
    )


BAD = {
    "HTML": (Reply([b"<html>Bad gateway</html>"]), 502),
    "nothing": (Reply([]), 502),
    "half of a JSON object": (Reply([b'data: {"choices": [{"delta": {"cont']), 502),
    "an error under 200": (Reply([sse({"error": {"message": "no", "code": 400}})]), 400),
    "a malformed call": (Reply([sse(calls(piece("look", '{"a":', index=0)), end())]), 502),
    "a broken connection": (Reply([sse(text("Hi"), done=False), CUT]), 502),
    "a bad key": (Reply([orjson.dumps({"error": {"message": f"bad key {KEY}"}})], 401), 502),
    "an overflow": (
        Reply([orjson.dumps({"error": {"message": "maximum context length is 8 tokens"}})], 400),
        400,
    ),
}


@pytest.mark.parametrize(("reply", "status"), BAD.values(), ids=BAD)
def test_a_bad_answer_is_an_error_without_the_key(served: Served, reply: Reply, status: int) -> None:
    served.api.will_say(reply)
    body = {"model": LOCAL, "messages": [{"role": "user", "content": "Hello"}]}
    refused = served.post("/v1/chat/completions", body)
    assert refused.status_code == status, refused.text
    assert KEY not in refused.text
    assert "Gemini" not in refused.json()["error"]["message"]


def test_the_key_is_in_no_log(served: Served) -> None:
    served.post("/v1/chat/completions", {"model": LOCAL, "messages": [{"role": "user", "content": "Hello"}]})
    assert served.api.asked[-1].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in served.bridge.lines()
