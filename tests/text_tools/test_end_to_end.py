"""Models that write calls and thoughts as text: real gunicorn, a scripted upstream, all protocols."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import requests
from anthropic import Anthropic
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge
from openai import OpenAI
from scripted_gemini import ScriptedGemini, call_chunk, sse, text_chunk

MODELS = """
[[model]]
match = ["qwen-plain"]
tools = "text"
preserve_context = false

[[model]]
match = ["qwen-silent"]
tools = "text"
think = "drop"

[[model]]
match = ["qwen-off"]
tools = "text"
think = "off"
soft_switch = "/no_think"
thinking_levels = ["low", "high"]

[[model]]
match = ["qwen-template"]
think = "show"
think_opens = "template"

[[model]]
match = ["qwen*"]
tools = "text"
think = "show"

[model.parameter_map.get_weather]
town = "city"

"""
UPSTREAMS = """
[[upstream]]
name = "cellar"
kind = "gemini"
base_url = "{address}"
api_key = "env:CELLAR_KEY"
models = ["cellar-*"]
tools = "text"
think = "show"
parameter_map.get_weather = {{ place = "city" }}
"""

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"town": "Rom}"}}\n</tool_call>'
ANSWER = f"<think>\nWhere?\n</think>\n\nI look.\n{CALL}\n"


@pytest.fixture(scope="module")
def text_bridge(
    tmp_path_factory: pytest.TempPathFactory, _gemini: ScriptedGemini, canary_key: str
) -> Iterator[Bridge]:
    folder = tmp_path_factory.mktemp("config")
    shutil.copytree(ROOT / "config", folder, dirs_exist_ok=True)
    text = (folder / "models.toml").read_text()
    head, row, rest = text.partition("[[model]]")
    head = head.replace('pass_through = ["gemini-*"', 'pass_through = ["qwen*", "gemini-*"')
    Path(folder / "models.toml").write_text(head + MODELS + row + rest)
    Path(folder / "upstreams.toml").write_text(UPSTREAMS.format(address=_gemini.address))
    with gunicorn_bridge(
        BRIDGE_CONFIG_DIR=str(folder),
        GEMINI_API_KEY=canary_key,
        CELLAR_KEY=canary_key,
        GOOGLE_GEMINI_BASE_URL=_gemini.address,
        BRIDGE_UPSTREAM__ATTEMPTS="2",
        BRIDGE_UPSTREAM__KEY_COOLDOWN="0",
    ) as running:
        yield running


def in_pieces(text: str, size: int, finish: str = "STOP") -> list[bytes]:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return sse(*map(text_chunk, pieces), text_chunk("", finish))


@pytest.fixture(params=[1, 7, 10_000])
def answers(request: pytest.FixtureRequest, gemini: ScriptedGemini) -> ScriptedGemini:
    """The upstream writes a call, and after its result a text; whole and in pieces."""
    said = count()
    gemini.will_answer(lambda _: in_pieces(ANSWER if next(said) % 2 == 0 else "It is sunny.", request.param))
    return gemini


def instruction(gemini: ScriptedGemini) -> str:
    return str(gemini.asked[-1].body["systemInstruction"]["parts"][-1]["text"])


def assert_second_turn(gemini: ScriptedGemini, result: str = "sunny") -> None:
    """The request of the second turn has the call and its result as text, and declares nothing."""
    first, second = (asked.body for asked in gemini.asked[-2:])
    assert not {"tools", "toolConfig"} & second.keys()
    assert '"name":"get_weather"' in instruction(gemini)
    assert second["systemInstruction"] == first["systemInstruction"]
    assert second["contents"][: len(first["contents"])] == first["contents"]
    said, answered = second["contents"][-2:]
    texts = [part["text"] for part in said["parts"] if not part.get("thought")]
    assert "".join(texts) == (
        'I look.\n\n<tool_call>\n{"name":"get_weather","arguments":{"city":"Rom}"}}\n</tool_call>'
    )
    assert answered["role"] == "user"
    assert answered["parts"] == [{"text": f"<tool_response>\n{result}\n</tool_response>"}]


@pytest.mark.parametrize("stream", [True, False])
def test_openai_chat(text_bridge: Bridge, answers: ScriptedGemini, stream: bool) -> None:
    tools: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    with OpenAI(base_url=f"{text_bridge.address}/v1", api_key="key", max_retries=0) as client:
        if stream:
            with client.chat.completions.stream(model="qwen3", messages=messages, tools=tools) as events:
                choice = events.get_final_completion().choices[0]
        else:
            choice = client.chat.completions.create(model="qwen3", messages=messages, tools=tools).choices[0]
        assert choice.finish_reason == "tool_calls"
        (call,) = choice.message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Rom}"})
        assert call.id.startswith("call_")
        assert choice.message.content == "I look.\n"
        assert choice.message.reasoning_content == "Where?\n"
        echoed = choice.message.model_dump(exclude_none=True, exclude={"parsed"})
        result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
        answer = client.chat.completions.create(
            model="qwen3", messages=[*messages, echoed, result], tools=tools
        )
    assert answer.choices[0].message.content == "It is sunny."
    assert_second_turn(answers)


@pytest.mark.parametrize("stream", [True, False])
def test_anthropic_messages(text_bridge: Bridge, answers: ScriptedGemini, stream: bool) -> None:
    ask: dict[str, Any] = {
        "model": "qwen3",
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    with Anthropic(base_url=text_bridge.address, api_key="key", max_retries=0) as client:
        if stream:
            with client.messages.stream(**ask) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**ask)
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        thinking, text, call = message.content
        assert (thinking.thinking, text.text, call.input) == ("Where?\n", "I look.\n", {"city": "Rom}"})
        assert message.stop_reason == "tool_use"
        said = {"role": "assistant", "content": [block.model_dump() for block in message.content]}
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
        turns = [*ask["messages"], said, {"role": "user", "content": [result]}]
        answer = client.messages.create(**{**ask, "messages": turns})
    assert answer.content[0].text == "It is sunny."
    assert_second_turn(answers)


@pytest.mark.parametrize("stream", [True, False])
def test_openai_responses(text_bridge: Bridge, answers: ScriptedGemini, stream: bool) -> None:
    tools: Any = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
    ask: dict[str, Any] = {"model": "qwen3", "tools": tools, "reasoning": {"summary": "auto"}}
    with OpenAI(base_url=f"{text_bridge.address}/v1", api_key="key", max_retries=0) as client:
        if stream:
            with client.responses.stream(input="Weather?", **ask) as events:
                first = events.get_final_response()
        else:
            first = client.responses.create(input="Weather?", **ask)
        assert [item.type for item in first.output] == ["reasoning", "message", "function_call"]
        call = first.output[-1]
        assert json.loads(call.arguments) == {"city": "Rom}"}
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        answer = client.responses.create(input=[result], previous_response_id=first.id, **ask)
    assert answer.output_text == "It is sunny."
    assert_second_turn(answers)


@pytest.mark.parametrize("method", ["streamGenerateContent?alt=sse", "generateContent"])
def test_gemini(text_bridge: Bridge, answers: ScriptedGemini, method: str) -> None:
    question = {"role": "user", "parts": [{"text": "Weather?"}]}
    declared = {"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": SCHEMA}]}

    def ask(*contents: Any) -> list[Any]:
        answer = requests.post(
            f"{text_bridge.address}/v1beta/models/qwen3:{method}",
            json={"contents": contents, "tools": [declared]},
            timeout=60,
        )
        lines = answer.text.splitlines() if method.startswith("stream") else [answer.text]
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.strip()]
        return [part for chunk in chunks for part in chunk["candidates"][0]["content"].get("parts", ())]

    parts = ask(question)
    (call,) = [part["functionCall"] for part in parts if "functionCall" in part]
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Rom}"})
    assert "".join(part["text"] for part in parts if part.get("thought")) == "Where?\n"
    spoken = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    assert spoken == "I look.\n"
    said = {"role": "model", "parts": [{"text": "I look.\n"}, {"functionCall": call}]}
    result = {"functionResponse": {"name": "get_weather", "response": {"result": "sunny"}}}
    parts = ask(question, said, {"role": "user", "parts": [result]})
    assert "".join(part.get("text", "") for part in parts) == "It is sunny."
    assert_second_turn(answers)


def interact(bridge: Bridge, **fields: Any) -> dict[str, Any]:
    """The interaction; its steps are those of the whole answer, or joined from the events of the stream."""
    tool = {"type": "function", "name": "get_weather", "description": "", "parameters": SCHEMA}
    answer = requests.post(
        f"{bridge.address}/v1beta/interactions",
        json={"model": "qwen3", "tools": [tool], **fields},
        headers={"x-goog-api-key": "key"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    if not fields.get("stream"):
        return dict(answer.json())
    lines = [line for line in answer.text.splitlines() if line.startswith("data: {")]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    steps = [event["step"] for event in events if event["event_type"] == "step.start"]
    for event in events:
        if event["event_type"] == "step.delta" and event["delta"]["type"] == "arguments_delta":
            steps[event["index"]]["arguments"] = json.loads(event["delta"]["arguments"])
    return {"id": events[0]["interaction"]["id"], "steps": steps}


@pytest.mark.parametrize("stream", [True, False])
def test_gemini_interactions(text_bridge: Bridge, answers: ScriptedGemini, stream: bool) -> None:
    first = interact(text_bridge, input="Weather?", stream=stream)
    assert [step["type"] for step in first["steps"]] == ["model_output", "function_call"]
    call = first["steps"][-1]
    assert (call["name"], call["arguments"]) == ("get_weather", {"city": "Rom}"})
    result = {"type": "function_result", "call_id": call["id"], "name": "get_weather", "result": "sunny"}
    second = interact(text_bridge, input=[result], previous_interaction_id=first["id"])
    assert second["steps"][-1]["content"] == [{"type": "text", "text": "It is sunny."}]
    assert_second_turn(answers)


# --- settings of the row -----------------------------------------------------------------------------


def chat(bridge: Bridge, model: str, **fields: Any) -> Any:
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
    body = {"model": model, "messages": [{"role": "user", "content": "Weather?"}], "tools": tools} | fields
    answer = requests.post(f"{bridge.address}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]


def test_text_beside_calls_can_be_dropped(text_bridge: Bridge, gemini: ScriptedGemini) -> None:
    gemini.will_say(in_pieces(f"I look.\n{CALL}\nWait.", 5), in_pieces("No call.", 5))
    message = chat(text_bridge, "qwen-plain")
    assert (message["content"], len(message["tool_calls"])) == (None, 1)
    assert chat(text_bridge, "qwen-plain")["content"] == "No call."


@pytest.mark.parametrize("model", ["qwen-silent", "qwen-off"])
def test_thoughts_can_be_dropped(text_bridge: Bridge, gemini: ScriptedGemini, model: str) -> None:
    gemini.will_say(in_pieces("<think>Where?</think>Rome.", 4))
    message = chat(text_bridge, model)
    assert message["content"] == "Rome."
    assert "reasoning_content" not in message


def test_thinking_off_is_asked_for_like_a_client_would(text_bridge: Bridge, gemini: ScriptedGemini) -> None:
    chat(text_bridge, "qwen-off", reasoning_effort="high")
    sent = gemini.asked[-1].body
    assert sent["contents"][0]["parts"] == [{"text": "/no_think\nWeather?"}]
    assert sent["generationConfig"]["thinkingConfig"] == {"includeThoughts": False, "thinkingLevel": "LOW"}


def test_an_answer_may_begin_inside_a_thought(text_bridge: Bridge, gemini: ScriptedGemini) -> None:
    gemini.will_say(in_pieces("Where?\n</think>\n\nRome.", 4))
    message = chat(text_bridge, "qwen-template")
    assert (message["reasoning_content"], message["content"]) == ("Where?\n", "Rome.")


def test_a_row_of_an_upstream_has_the_same_settings(text_bridge: Bridge, gemini: ScriptedGemini) -> None:
    gemini.will_say(in_pieces(f"<think>Hm.</think>{CALL.replace('town', 'place')}", 6))
    message = chat(text_bridge, "cellar-1")
    assert message["reasoning_content"] == "Hm."
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": "Rom}"}
    assert "<tools>" in instruction(gemini)


def test_other_models_are_not_touched(text_bridge: Bridge, gemini: ScriptedGemini) -> None:
    gemini.will_say(in_pieces(f"<think>Hm.</think>{CALL}", 6))
    message = chat(text_bridge, "gemini-3.8-flash")
    assert message["content"] == f"<think>Hm.</think>{CALL}"
    assert gemini.asked[-1].body["tools"]


# --- retries and notes -------------------------------------------------------------------------------


def test_an_answer_of_a_thought_alone_is_retried(text_bridge: Bridge, gemini: ScriptedGemini) -> None:
    """Thoughts in text are not visible, so the empty answer costs only time."""
    gemini.will_say(in_pieces("<think>Hm.", 3), in_pieces(f"<think>Hm.</think>{CALL}", 3))
    assert len(chat(text_bridge, "qwen3")["tool_calls"]) == 1
    assert len(gemini.asked) == 2


def test_a_cut_stream_before_the_end_of_a_call_is_retried(
    text_bridge: Bridge, gemini: ScriptedGemini
) -> None:
    """A call that is held back was not visible, so the second attempt starts with nothing held."""
    gemini.will_say(sse(text_chunk(CALL[:40])), in_pieces("Sunny.", 3))
    message = chat(text_bridge, "qwen3")
    assert (message["content"], message.get("tool_calls")) == ("Sunny.", None)
    assert len(gemini.asked) == 2


def test_a_malformed_answer_with_a_call_in_text_is_complete(
    text_bridge: Bridge, gemini: ScriptedGemini
) -> None:
    gemini.will_say(in_pieces(CALL, 9, "MALFORMED_FUNCTION_CALL"))
    assert len(chat(text_bridge, "qwen3")["tool_calls"]) == 1
    assert len(gemini.asked) == 1


def test_a_call_that_the_limit_cuts_off_is_text(text_bridge: Bridge, gemini: ScriptedGemini) -> None:
    gemini.will_say(in_pieces(CALL[:50], 9, "MAX_TOKENS"))
    message = chat(text_bridge, "qwen3")
    assert (message["content"], message.get("tool_calls")) == (CALL[:50], None)
    assert text_bridge.request(model="qwen3")["notes"]["text_tools.broken"] == 1


def test_a_declared_call_still_passes(text_bridge: Bridge, gemini: ScriptedGemini) -> None:
    gemini.will_say(sse(text_chunk("I <"), call_chunk("get_weather", {"city": "Rome"}, "c1", finish="STOP")))
    message = chat(text_bridge, "qwen3")
    assert (message["content"], message["tool_calls"][0]["id"]) == ("I <", "c1")


def test_a_required_call_is_a_loss_and_is_asked_for_in_words(
    text_bridge: Bridge, gemini: ScriptedGemini
) -> None:
    body = {"tool_choice": "required"}
    chat(text_bridge, "qwen3", **body)
    assert "You must call at least one tool" in instruction(gemini)
    assert text_bridge.request(model="qwen3")["notes"]["tools.choice_in_text"] == 1
