"""A conversation with signatures and calls that moves from Gemini to Qwen and back."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest
import scripted_chat as chat
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge
from scripted_gemini import Asked, Reply, ScriptedGemini, call_chunk, sse, text_chunk

MODEL = "gemini-3.8-flash"
SIGNATURE = "c2lnbmVkLWJ5LWdlbWluaQ=="
ROWS = """
[[upstream]]
name = "qwen"
kind = "openai"
dialect = "{dialect}"
base_url = "{address}/v1"
models = ["qwen3-*"]
tools = "{tools}"
"""
FALLBACK = (
    f'[[model]]\nmatch = ["{MODEL}"]\nfallbacks = ["qwen:qwen3-coder"]\nthinking_levels = ["low", "high"]\n'
)
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.2s"}
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
PLACES = ("/gemini", "/qwen", "/back")


@dataclass
class Pair:
    bridge: Bridge
    gemini: ScriptedGemini
    qwen: ScriptedGemini


@pytest.fixture(scope="module", params=["vllm", "mistral", "text"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    gemini, qwen = ScriptedGemini(), ScriptedGemini()
    config = tmp_path_factory.mktemp("fallback") / "config"
    shutil.copytree(ROOT / "config", config, ignore=shutil.ignore_patterns("local.toml"))
    text = request.param == "text"
    rows = ROWS.format(
        dialect="vllm" if text else request.param,
        address=qwen.address,
        tools="text" if text else "native",
    )
    (config / "upstreams.toml").write_text(rows)
    models = (config / "models.toml").read_text()
    row = FALLBACK + "needs_signatures = true\n\n"
    (config / "models.toml").write_text(models.replace("[[model]]", f"{row}[[model]]", 1))
    with gunicorn_bridge(
        BRIDGE_CONFIG_DIR=str(config),
        GEMINI_API_KEY="AIzaCanary000000000000000000000pair",
        GOOGLE_GEMINI_BASE_URL=gemini.address,
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        BRIDGE_SERVER__WORKERS="1",
        NO_PROXY="127.0.0.1",
    ) as bridge:
        pair = Pair(bridge, gemini, qwen)
        gemini.will_answer(gemini_says)
        qwen.will_answer(qwen_says)
        yield pair
    gemini.close()
    qwen.close()


def gemini_says(asked: Asked) -> Any:
    """One call; then it is overloaded for a moment; at last a text."""
    told = json.dumps(asked.body["contents"])
    if PLACES[1] in told:
        return sse(text_chunk("It says all.", "STOP"))
    if PLACES[0] in told:
        error = {"code": 503, "status": "UNAVAILABLE", "message": "Too busy.", "details": [RETRY]}
        return Reply([json.dumps({"error": error}).encode()], 503)
    return sse(call_chunk("look", {"at": PLACES[0]}, "g1", SIGNATURE, "STOP"))


def qwen_says(asked: Asked) -> list[bytes]:
    arguments = json.dumps({"at": PLACES[1]})
    if "tools" not in asked.body:
        call = f'<tool_call>{{"name": "look", "arguments": {arguments}}}</tool_call>'
        return [chat.sse(chat.text(call), chat.end("stop"), chat.counted())]
    call_id = "AbC123xyz"
    return [
        chat.sse(
            chat.choice({"reasoning": "Hm."}),
            chat.calls(chat.piece("look", arguments, index=0, id=call_id)),
            chat.end(),
            chat.counted(),
        )
    ]


def check_requests(pair: Pair) -> None:
    (qwen,) = (asked.body for asked in pair.qwen.asked)
    sent = json.dumps(qwen)
    assert "c2lnbmVk" not in sent
    assert "a gemini wall" in sent
    assert PLACES[0] in sent
    if "tools" in qwen:
        answer, result = qwen["messages"][-2:]
        assert (answer["role"], result["role"]) == ("assistant", "tool")
        assert answer["tool_calls"][0]["id"] == result["tool_call_id"]
    last = pair.gemini.asked[-1].body["contents"]
    first, second = (part for content in last for part in content["parts"] if "functionCall" in part)
    assert first["thoughtSignature"] == SIGNATURE
    assert second["functionCall"]["args"] == {"at": PLACES[1]}
    assert second.get("thoughtSignature") != SIGNATURE
    results = [
        part["functionResponse"]
        for content in last
        for part in content["parts"]
        if "functionResponse" in part
    ]
    assert ["gemini" in json.dumps(results[0]), "qwen" in json.dumps(results[1])] == [True, True]
    pair.gemini.asked.clear()
    pair.qwen.asked.clear()


def wait_for_gemini() -> None:
    """Until the cool-down of its model has ended."""
    time.sleep(0.6)


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions(pair: Pair, *, stream: bool) -> None:
    client = openai.OpenAI(base_url=f"{pair.bridge.address}/v1", api_key="any", max_retries=0)
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
    messages: list[Any] = [{"role": "user", "content": f"Look. {stream}"}]

    def ask() -> Any:
        if not stream:
            return (
                client.chat.completions.create(model=MODEL, messages=messages, tools=tools).choices[0].message
            )
        with client.chat.completions.stream(model=MODEL, messages=messages, tools=tools) as events:
            return events.get_final_completion().choices[0].message

    for place, name in zip(PLACES, ("gemini", "qwen"), strict=False):
        message = ask()
        (call,) = message.tool_calls
        assert json.loads(call.function.arguments) == {"at": place}
        said = message.model_dump(exclude_none=True, exclude={"parsed"})
        for each in said["tool_calls"]:
            each["function"].pop("parsed_arguments", None)
        messages += [said, {"role": "tool", "tool_call_id": call.id, "content": f"a {name} wall"}]
    wait_for_gemini()
    assert ask().content == "It says all."
    check_requests(pair)


def test_messages(pair: Pair) -> None:
    client = anthropic.Anthropic(base_url=pair.bridge.address, api_key="any", max_retries=0)
    given: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 500,
        "tools": [{"name": "look", "input_schema": SCHEMA}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    messages: list[Any] = [{"role": "user", "content": "Look."}]
    for place, name in zip(PLACES, ("gemini", "qwen"), strict=False):
        with client.messages.stream(**given, messages=messages) as events:
            said = events.get_final_message()
        call = said.content[-1]
        assert call.input == {"at": place}
        blocks = [block.model_dump(exclude_none=True) for block in said.content]
        result = {"type": "tool_result", "tool_use_id": call.id, "content": f"a {name} wall"}
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
    wait_for_gemini()
    assert client.messages.create(**given, messages=messages).content[-1].text == "It says all."
    check_requests(pair)


def test_responses(pair: Pair) -> None:
    client = openai.OpenAI(base_url=f"{pair.bridge.address}/v1", api_key="any", max_retries=0)
    tools: Any = [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}]
    given: Any = "Look."
    previous: dict[str, Any] = {}
    for place, name in zip(PLACES, ("gemini", "qwen"), strict=False):
        with client.responses.stream(model=MODEL, input=given, tools=tools, **previous) as events:
            said = events.get_final_response()
        (call,) = (item for item in said.output if item.type == "function_call")
        assert json.loads(call.arguments) == {"at": place}
        given = [{"type": "function_call_output", "call_id": call.call_id, "output": f"a {name} wall"}]
        previous = {"previous_response_id": said.id}
    wait_for_gemini()
    assert (
        client.responses.create(model=MODEL, input=given, tools=tools, **previous).output_text
        == "It says all."
    )
    check_requests(pair)
