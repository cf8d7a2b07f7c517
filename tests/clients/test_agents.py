"""Agents as models, with the vendors' SDKs: one streamed answer, with the tools that the bridge ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
import requests
from agent_bridge import FILES, RESULT, agent_bridge, analyst, declared, in_turn, results_in
from anthropic import Anthropic
from google import genai
from gunicorn_bridge import Bridge
from openai import OpenAI
from scripted_gemini import Reply, ScriptedGemini, call_chunk, sse, text_chunk
from waiting import eventually

ANALYST, READER = "agent/analyst", "agent/reader"
CALLS = ["list_directory", "read_file", "read_file"]


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


@pytest.fixture(scope="module")
def running(model: ScriptedGemini, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    with agent_bridge(model, tmp_path_factory.mktemp("agents")) as bridge:
        yield bridge


@pytest.fixture
def gemini(model: ScriptedGemini) -> ScriptedGemini:
    model.forget()
    return model


@pytest.fixture
def sdk(running: Bridge) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{running.address}/v1", api_key="client-key", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic(running: Bridge) -> Iterator[Anthropic]:
    with Anthropic(base_url=running.address, api_key="client-key", max_retries=0) as client:
        yield client


def check_rounds(gemini: ScriptedGemini) -> None:
    """What the model of the analyst got."""
    first, second = gemini.asked
    assert first.path.startswith("/v1beta/models/gemini-3.8-flash:")
    assert first.body["contents"] == [{"role": "user", "parts": [{"text": "Analyse this: the app"}]}]
    assert first.body["systemInstruction"]["parts"][0]["text"].startswith(
        "Analyse the code.\n\nWhen you are done"
    )
    assert first.body["generationConfig"]["temperature"] == 0
    assert declared(first)[-1] == "complete_task"
    turn = second.body["contents"][1]
    assert turn["parts"][0] == {"text": "Let me look."}
    assert turn["parts"][1]["thoughtSignature"] == "bG9vaw=="
    assert [part["functionCall"]["name"] for part in turn["parts"][1:]] == [f"code__{name}" for name in CALLS]
    responses = [part["functionResponse"] for part in second.body["contents"][2]["parts"]]
    assert [each["response"]["output"] for each in responses[1:]] == [
        text.rstrip() for text in FILES.values()
    ]


# --- the code analyst in each protocol ----------------------------------------------------------------


def test_chat_completions(sdk, gemini):
    gemini.will_answer(analyst)
    chunks = list(
        sdk.chat.completions.create(
            model=ANALYST,
            messages=[{"role": "user", "content": "the app"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert json.loads("".join(delta.content or "" for delta in deltas)) == RESULT
    reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert reasoning.startswith("Let me look.→ code__list_directory {}\n← code__list_directory: ")
    assert '→ code__read_file {"path":"store.py"}\n' in reasoning
    assert not any(delta.tool_calls for delta in deltas)
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage.total_tokens == 14
    check_rounds(gemini)


def test_responses(sdk, gemini):
    gemini.will_answer(analyst)
    with sdk.responses.stream(model=ANALYST, input="the app") as stream:
        events = list(stream)
    final = events[-1].response
    assert json.loads(final.output_text) == RESULT
    calls = [item for item in final.output if item.type == "mcp_call"]
    assert [call.name for call in calls] == CALLS
    assert {(call.server_label, call.status, call.error) for call in calls} == {("code", "completed", None)}
    assert calls[1].output == FILES["app.py"].rstrip()
    assert json.loads(calls[1].arguments) == {"path": "app.py"}
    kinds = [event.type for event in events]
    first = kinds.index("response.mcp_call.in_progress")
    assert kinds[first - 1 : first + 5] == [
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
    ]
    check_rounds(gemini)


def test_messages(anthropic, gemini):
    gemini.will_answer(analyst)
    with anthropic.messages.stream(
        model=ANALYST,
        max_tokens=2048,
        thinking={"type": "enabled", "budget_tokens": 1024},
        messages=[{"role": "user", "content": "the app"}],
    ) as stream:
        message = stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert json.loads(message.content[-1].text) == RESULT
    assert "→ code__read_file" in message.content[0].thinking
    assert message.stop_reason == "end_turn"
    check_rounds(gemini)


def test_gemini_native(running, gemini):
    gemini.will_answer(analyst)
    options = genai.types.HttpOptions(base_url=running.address)
    client = genai.Client(api_key="client-key", http_options=options)
    chunks = list(client.models.generate_content_stream(model=f"models/{ANALYST}", contents="the app"))
    parts = [part for chunk in chunks for each in chunk.candidates or [] for part in each.content.parts or []]
    assert [part.tool_call.args["name"] for part in parts if part.tool_call] == CALLS
    assert [part.tool_response.response["isError"] for part in parts if part.tool_response] == [False] * 3
    assert json.loads("".join(part.text for part in parts if part.text and not part.thought)) == RESULT
    assert chunks[-1].candidates[0].finish_reason == "STOP"
    check_rounds(gemini)


def test_interactions(running, gemini):
    gemini.will_answer(analyst)
    body = {"model": ANALYST, "input": "the app"}
    answer = requests.post(f"{running.address}/v1beta/interactions", json=body, timeout=20).json()
    kinds = [step["type"] for step in answer["steps"]]
    assert kinds == [*["mcp_server_tool_call", "mcp_server_tool_result"] * 3, "model_output"]
    assert json.loads(answer["steps"][-1]["content"][0]["text"]) == RESULT


def test_a_whole_answer_is_the_fold_of_the_stream(sdk, anthropic, gemini):
    gemini.will_answer(analyst)
    completion = sdk.chat.completions.create(model=ANALYST, messages=[{"role": "user", "content": "the app"}])
    assert json.loads(completion.choices[0].message.content) == RESULT
    response = sdk.responses.create(model=ANALYST, input="the app")
    assert [item.type for item in response.output] == ["mcp_call"] * 3 + ["message"]
    message = anthropic.messages.create(
        model=ANALYST, max_tokens=100, messages=[{"role": "user", "content": "the app"}]
    )
    assert [block.type for block in message.content] == ["text"]


# --- a conversation -----------------------------------------------------------------------------------


def reads(name: str) -> Any:
    return lambda _asked: sse(call_chunk("code__read_file", {"path": name}, "c1", "cmVhZA==", "STOP"))


def test_items_that_return_become_function_calls_again(sdk, gemini):
    gemini.will_answer(in_turn(reads("store.py"), lambda _asked: sse(text_chunk("A store.", "STOP"))))
    first = sdk.responses.create(
        model=READER, input="What is it?", store=False, include=["reasoning.encrypted_content"]
    )
    history = [{"role": "user", "content": "What is it?"}, *(item.model_dump() for item in first.output)]
    gemini.forget()
    gemini.will_answer(lambda _asked: sse(text_chunk("As I said.", "STOP")))
    sdk.responses.create(model=READER, input=[*history, {"role": "user", "content": "Sure?"}], store=False)
    _, called, returned, said, _ = gemini.asked[0].body["contents"]
    (call,) = [part for part in called["parts"] if "functionCall" in part]
    assert call["functionCall"]["name"] == "code__read_file"
    assert call["thoughtSignature"] == "cmVhZA=="
    assert returned["parts"][0]["functionResponse"]["response"] == {"output": FILES["store.py"].rstrip()}
    assert said["parts"] == [{"text": "A store."}]


def test_an_answer_without_a_schema_streams_its_text(sdk, gemini):
    gemini.will_answer(
        in_turn(reads("store.py"), lambda _asked: sse(text_chunk("A "), text_chunk("store.", "STOP")))
    )
    chunks = list(
        sdk.chat.completions.create(
            model=READER, messages=[{"role": "user", "content": "What is it?"}], stream=True
        )
    )
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert texts == ["A ", "store."]


def test_an_agent_calls_another_agent(sdk, gemini, running):
    def delegate(asked: Any) -> Any:
        results = results_in(asked)
        if "subagent__analyst" in declared(asked):
            if results:
                return sse(
                    text_chunk(str(results["subagent__analyst"]["output"]), "STOP", promptTokenCount=5)
                )
            return sse(call_chunk("subagent__analyst", {"query": "the app"}, "s1", None, "STOP"))
        return analyst(asked)

    gemini.will_answer(delegate)
    answer = sdk.chat.completions.create(model=READER, messages=[{"role": "user", "content": "Analyse it"}])
    assert json.loads(answer.choices[0].message.content) == RESULT
    assert len(gemini.asked) == 4
    assert gemini.asked[1].body["contents"][0]["parts"][0]["text"] == "Analyse this: the app"
    assert answer.usage.total_tokens > 5  # with the tokens of the agent that was called


# --- models and requests ------------------------------------------------------------------------------


def test_agents_are_models_of_every_protocol(running, sdk):
    assert {ANALYST, READER} <= {model.id for model in sdk.models.list()}
    assert sdk.models.retrieve(ANALYST).id == ANALYST
    headers = {"anthropic-version": "2023-06-01"}
    listed = requests.get(f"{running.address}/v1/models?limit=1000", headers=headers, timeout=10).json()
    assert any(ANALYST in model["id"] for model in listed["data"])
    google = requests.get(f"{running.address}/v1beta/models?pageSize=1000", timeout=10).json()
    assert f"models/{ANALYST}" in {model["name"] for model in google["models"]}


def test_what_the_agent_does_not_use_is_named(running, gemini):
    gemini.will_answer(lambda _asked: sse(text_chunk("Hello.", "STOP")))
    body = {
        "model": READER,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}],
    }
    answer = requests.post(f"{running.address}/v1/chat/completions", json=body, timeout=20)
    assert answer.headers["x-bridge-losses"] == "agent.instruction,agent.tools"
    assert declared(gemini.asked[0]) == ["code__read_file", "subagent__analyst"]
    body["stream"] = True
    strict = {"x-bridge-strict": "1"}
    refused = requests.post(f"{running.address}/v1/chat/completions", json=body, headers=strict, timeout=20)
    assert refused.status_code == 400


def test_an_unknown_agent_is_an_unknown_or_other_model(sdk, gemini):
    gemini.will_answer(lambda _asked: sse(text_chunk("Hello.", "STOP")))
    answer = sdk.chat.completions.create(model="agent/nobody", messages=[{"role": "user", "content": "Hi"}])
    assert answer.choices[0].message.content == "Hello."  # the default model, as for every unknown name
    assert declared(gemini.asked[0]) == []


# --- failures -----------------------------------------------------------------------------------------


def test_a_result_that_never_fits_ends_with_an_error(sdk, gemini, running):
    numbers = iter(range(100))

    def wrong(_asked: Any) -> Any:
        output = {"module": next(numbers)}
        return sse(call_chunk("complete_task", {"output": output}, "t1", None, "STOP"))

    gemini.will_answer(wrong)
    with pytest.raises(openai.APIError, match="MAX_TURNS"):
        sdk.responses.create(model=ANALYST, input="the app")
    assert len(gemini.asked) == 5  # four rounds and the last turn
    assert running.request(model=ANALYST, status=502)["notes"]["agent.end.MAX_TURNS"] == 1


def test_the_guard_against_loops_checks_the_rounds_of_an_agent(sdk, gemini, running):
    gemini.will_answer(
        lambda _asked: sse(call_chunk("code__read_file", {"path": "none"}, "c1", None, "STOP"))
    )
    answer = sdk.chat.completions.create(model=READER, messages=[{"role": "user", "content": "What?"}])
    assert "infinite loop" in answer.choices[0].message.content
    assert len(gemini.asked) < 4


def test_a_model_that_fails_in_a_later_round_ends_the_stream_with_its_error(sdk, gemini):
    gemini.will_answer(in_turn(reads("store.py"), lambda _asked: Reply([b"{}"], 503)))
    with pytest.raises(openai.APIError):
        list(
            sdk.chat.completions.create(
                model=READER, messages=[{"role": "user", "content": "What?"}], stream=True
            )
        )


def test_a_client_that_leaves_ends_the_run(running, gemini):
    gemini.will_answer(in_turn(reads("store.py"), lambda _asked: Reply([*sse(text_chunk("A ")), 5.0])))
    body = {"model": READER, "stream": True, "messages": [{"role": "user", "content": "What?"}]}
    answer = requests.post(f"{running.address}/v1/chat/completions", json=body, stream=True, timeout=20)
    next(answer.iter_content(1))
    answer.close()
    left = eventually(lambda: running.requests(model=READER, outcome="client_left"), 20)
    assert left[-1]["notes"]["agent.end.ABORTED"] == 1


def test_the_demo_agent_answers_from_the_documents_in_every_protocol(demo_bridge):
    question = "How do I set the port?"
    with OpenAI(base_url=f"{demo_bridge.address}/v1", api_key="none", max_retries=0) as client:
        chat = client.chat.completions.create(
            model="agent/guide", messages=[{"role": "user", "content": question}]
        )
        response = client.responses.create(model="agent/guide", input=question)
    with Anthropic(base_url=demo_bridge.address, api_key="none", max_retries=0) as client:
        message = client.messages.create(
            model="agent/guide", max_tokens=1000, messages=[{"role": "user", "content": question}]
        )
    google = genai.Client(api_key="none", http_options=genai.types.HttpOptions(base_url=demo_bridge.address))
    native = google.models.generate_content(model="models/agent/guide", contents=question)
    texts = [
        chat.choices[0].message.content,
        response.output_text,
        message.content[-1].text,
        "".join(part.text for part in native.candidates[0].content.parts if part.text),
    ]
    for text in texts:
        assert "`CODER_AGENT_PORT`" in text
        assert "OPERATIONS.md" in text
