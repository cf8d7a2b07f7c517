"""Google Search beside functions: Gemini gets the parts of its search back, in their place."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
import requests
from gunicorn_bridge import Bridge
from scripted_gemini import Reply, ScriptedGemini, sse, text_chunk

from bridge.state.expiring_names import BETWEEN_LOOKS

MODEL = "gemini-3.8-flash"
LOSS = "tools.search_beside_functions"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "look", "description": "Looks.", "parameters": SCHEMA}
Json = dict[str, Any]


def search_parts(number: int) -> list[Json]:
    search = {"id": f"s{number}", "toolType": "GOOGLE_SEARCH_WEB"}
    return [
        {"toolCall": {**search, "args": {"queries": ["weather"]}}, "thoughtSignature": f"Y2FsbA{number}="},
        {"toolResponse": {**search, "response": {"found": "räin"}}, "thoughtSignature": f"cmVz{number}A=="},
    ]


@pytest.fixture
def said() -> list[Json]:
    """The parts of the first answer. The call has an id of its own, since the store outlives a test."""
    call = {"id": uuid4().hex, "name": "look", "args": {"city": "Bern"}}
    return [
        {"text": "I shall search.", "thought": True},
        *search_parts(1),
        {"functionCall": call, "thoughtSignature": "c2lnbmVkY2FsbA=="},
    ]


def answer_of(parts: list[Json]) -> list[bytes]:
    """One chunk for each part, as Gemini streams them."""
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    return sse(*chunks)


# --- the clients -------------------------------------------------------------------------------------

#: Sends the history, and returns the messages that the client adds for the answer.
Turn = Callable[[list[Json]], list[Json]]


class Client:
    def __init__(self, bridge: Bridge, *, stream: bool, model: str = MODEL, key: str = "key") -> None:
        self._bridge, self._stream, self._model, self._key = bridge, stream, model, key
        self.headers: Any = {}

    def _post(self, path: str, **body: Any) -> Iterator[Json]:
        answer = requests.post(
            f"{self._bridge.address}{path}",
            json={"model": self._model, "stream": self._stream, **body},
            headers={"Authorization": f"Bearer {self._key}", "anthropic-version": "2023-06-01"},
            timeout=30,
        )
        assert answer.status_code == 200, answer.text
        self.headers = answer.headers
        if not self._stream:
            yield answer.json()
            return
        lines = [line for line in answer.content.decode().splitlines() if line.startswith("data: {")]
        yield from (json.loads(line.removeprefix("data: ")) for line in lines)

    def chat(self, history: list[Json]) -> list[Json]:
        events = list(
            self._post(
                "/v1/chat/completions",
                messages=[{"role": "user", "content": "Hello"}, *history],
                tools=[{"type": "function", "function": FUNCTION}],
                web_search_options={},
            )
        )
        message: Json = {"role": "assistant", "content": None}
        for event in events:
            for choice in event["choices"]:
                message |= choice.get("message") or choice["delta"]
        calls = [{k: v for k, v in call.items() if k != "index"} for call in message.get("tool_calls", ())]
        result = [{"role": "tool", "tool_call_id": call["id"], "content": "Wet."} for call in calls]
        return [{**message, "reasoning_content": "I shall search.", "tool_calls": calls}, *result]

    def responses(self, history: list[Json], **more: Any) -> list[Json]:
        *_, last = self._post(
            "/v1/responses",
            input=[{"role": "user", "content": "Hello"}, *history],
            tools=[{"type": "web_search"}, {"type": "function", **FUNCTION}],
            **{"store": False, "reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]}
            | more,
        )
        output: list[Json] = last["response"]["output"] if self._stream else last["output"]
        calls = [item["call_id"] for item in output if item["type"] == "function_call"]
        return [
            *output,
            *({"type": "function_call_output", "call_id": call, "output": "Wet."} for call in calls),
        ]

    def messages(self, history: list[Json], **more: Any) -> list[Json]:
        events = list(
            self._post(
                "/v1/messages",
                max_tokens=9000,
                messages=[{"role": "user", "content": "Hello"}, *history],
                tools=[
                    {"type": "web_search_20250305", "name": "web_search"},
                    {"name": "look", "description": "Looks.", "input_schema": SCHEMA},
                ],
                **{"thinking": {"type": "enabled", "budget_tokens": 2000}} | more,
            )
        )
        blocks = blocks_of(events) if self._stream else events[0]["content"]
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "Wet."}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]


def blocks_of(events: list[Json]) -> list[Json]:
    """The content blocks, built from their deltas as a client's SDK does it."""
    blocks: list[Json] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "input": ""})
        elif event["type"] == "content_block_delta":
            for name, value in event["delta"].items():
                field = "input" if name == "partial_json" else name
                if name != "type":
                    blocks[-1][field] = blocks[-1].get(field, "") + value
    for block in blocks:
        given = block.pop("input")
        if block["type"] == "tool_use":
            block["input"] = json.loads(given)
    return blocks


def sent(gemini: ScriptedGemini) -> Json:
    body: Json = gemini.asked[-1].body
    return body


def returned_parts(gemini: ScriptedGemini) -> list[Json]:
    """The parts of the model's first turn in the last request."""
    return next(content["parts"] for content in sent(gemini)["contents"] if content["role"] == "model")


def without_thoughts(parts: list[Json]) -> list[Json]:
    return [part for part in parts if not part.get("thought")]


EACH_STREAM = pytest.mark.parametrize("stream", [True, False])
EACH_PROTOCOL = pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])


# --- round trips -------------------------------------------------------------------------------------


@EACH_STREAM
@EACH_PROTOCOL
def test_the_parts_of_a_search_return_in_their_place(bridge, gemini, said, protocol, stream):
    client = Client(bridge, stream=stream)
    turn: Turn = getattr(client, protocol)
    gemini.will_say(answer_of(said))
    history = turn([])
    first = sent(gemini)
    assert first["toolConfig"] == {
        "functionCallingConfig": {"mode": "VALIDATED"},
        "includeServerSideToolInvocations": True,
    }
    assert [sorted(tool) for tool in first["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert "x-bridge-losses" not in client.headers
    turn(history)
    assert returned_parts(gemini) == said
    assert sent(gemini)["toolConfig"] == first["toolConfig"]


@EACH_PROTOCOL
def test_a_search_after_text_returns_in_its_place(bridge, gemini, said, protocol):
    said[1:1] = [{"text": "Wait. "}]
    said[4:4] = [{"text": "Once more."}, *search_parts(2)]
    turn: Turn = getattr(Client(bridge, stream=True), protocol)
    gemini.will_say(answer_of(said))
    history = turn([])
    if protocol == "chat":
        history[0]["content"] = "Wait. Once more."  # the deltas of a text, joined
    turn(history)
    assert returned_parts(gemini) == said


def stripped(protocol: str, history: list[Json]) -> list[Json]:
    """The history from a client that drops everything that the vendor's API does not name."""
    if protocol == "responses":
        return [item for item in history if item["type"] != "reasoning"]
    if protocol == "chat":
        calls = [{k: v for k, v in call.items() if k != "extra_content"} for call in history[0]["tool_calls"]]
        return [{"role": "assistant", "tool_calls": calls}, *history[1:]]
    content = [block for block in history[0]["content"] if block["type"] != "thinking"]
    return [{**history[0], "content": content}, *history[1:]]


@EACH_STREAM
@EACH_PROTOCOL
def test_parts_that_a_client_dropped_return_from_the_store(bridge, gemini, said, protocol, stream):
    turn: Turn = getattr(Client(bridge, stream=stream), protocol)
    gemini.will_say(answer_of(said))
    turn(stripped(protocol, turn([])))
    assert returned_parts(gemini) == without_thoughts(said)


@pytest.mark.parametrize(
    ("protocol", "more"),
    [("responses", {"include": [], "reasoning": {}}), ("messages", {"thinking": {"type": "disabled"}})],
)
def test_clients_that_cannot_carry_parts_get_none(bridge, gemini, said, protocol, more):
    turn = getattr(Client(bridge, stream=False), protocol)
    gemini.will_say(answer_of(said))
    history = turn([], **more)
    assert "part:" not in json.dumps(history)
    turn(history, **more)
    assert returned_parts(gemini) == without_thoughts(said)


def test_a_continued_response_returns_the_parts(bridge, gemini, said):
    client = Client(bridge, stream=False)
    gemini.will_say(answer_of(said))
    stored = requests.post(
        f"{bridge.address}/v1/responses",
        json={
            "model": MODEL,
            "input": "Hello",
            "tools": [{"type": "web_search"}, {"type": "function", **FUNCTION}],
        },
        headers={"Authorization": "Bearer key"},
        timeout=30,
    ).json()
    call_id = next(item["call_id"] for item in stored["output"] if item["type"] == "function_call")
    output = {"type": "function_call_output", "call_id": call_id, "output": "Wet."}
    client.responses([output], previous_response_id=stored["id"], store=True)
    assert returned_parts(gemini) == without_thoughts(said)


# --- parts that must not return ----------------------------------------------------------------------


@EACH_PROTOCOL
def test_a_store_that_knows_nothing_leaves_a_legal_request(bridge, gemini, said, protocol):
    gemini.will_say(answer_of(said))
    history = stripped(protocol, getattr(Client(bridge, stream=False), protocol)([]))
    getattr(Client(bridge, stream=False, key="another"), protocol)(history)
    (call,) = returned_parts(gemini)
    assert "functionCall" in call


def test_half_of_a_search_is_replaced_from_the_store(bridge, gemini, said):
    client = Client(bridge, stream=False)
    gemini.will_say(answer_of(said))
    history = client.responses([])
    carried = [item for item in history if str(item.get("encrypted_content")).startswith("part:")]
    assert len(carried) == 2
    client.responses([item for item in history if item is not carried[0]])
    assert returned_parts(gemini) == said
    Client(bridge, stream=False, key="another").responses(
        [item for item in history if item is not carried[1]]
    )
    assert not any("toolCall" in part for part in returned_parts(gemini))


@pytest.mark.parametrize("text", ["part:", "part:%%%", "part:AAAA", "part:W10=", "part:eyJ0ZXh0IjoiYSJ9"])
def test_a_changed_carrier_is_dropped(bridge, gemini, said, text):
    client = Client(bridge, stream=False)
    gemini.will_say(answer_of(said))
    history = stripped("responses", client.responses([]))
    client.responses([{"type": "reasoning", "summary": [], "encrypted_content": text}, *history])
    assert returned_parts(gemini) == without_thoughts(said)


@EACH_PROTOCOL
def test_another_model_gets_no_parts_of_a_search(bridge, gemini, said, protocol):
    gemini.will_say(answer_of(said))
    history = getattr(Client(bridge, stream=False), protocol)([])
    other = Client(bridge, stream=False, model="gemini-4-argon")
    getattr(other, protocol)(history)
    assert not any("toolCall" in part or "toolResponse" in part for part in returned_parts(gemini))
    assert "toolConfig" not in sent(gemini)
    assert other.headers["x-bridge-losses"] == LOSS


# --- what is not combined ----------------------------------------------------------------------------


def with_tools(bridge: Bridge, *tools: Json, model: str = MODEL, **more: Any) -> requests.Response:
    return requests.post(
        f"{bridge.address}/v1/messages",
        json={
            "model": model,
            "max_tokens": 99,
            "messages": [{"role": "user", "content": "Hello"}],
            "tools": [{"name": "look", "input_schema": SCHEMA}, *tools],
            **more,
        },
        headers={"x-api-key": "key"},
        timeout=30,
    )


WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}
WEB_FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}


def test_other_tools_of_google_are_dropped(bridge, gemini):
    answer = with_tools(bridge, WEB_SEARCH, WEB_FETCH)
    assert [sorted(tool) for tool in sent(gemini)["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert answer.headers["x-bridge-losses"] == LOSS
    answer = with_tools(bridge, WEB_FETCH)
    assert [sorted(tool) for tool in sent(gemini)["tools"]] == [["functionDeclarations"]]
    assert answer.headers["x-bridge-losses"] == LOSS


@pytest.mark.parametrize(
    ("choice", "loss"),
    [({"type": "any"}, LOSS), ({"type": "none"}, None), ({"type": "tool", "name": "look"}, LOSS)],
)
def test_a_forced_or_forbidden_call_leaves_no_search(bridge, gemini, choice, loss):
    """A client that forbids all calls does not lose the search."""
    answer = with_tools(bridge, WEB_SEARCH, tool_choice=choice)
    assert "includeServerSideToolInvocations" not in sent(gemini)["toolConfig"]
    assert [sorted(tool) for tool in sent(gemini)["tools"]] == [["functionDeclarations"]]
    assert answer.headers.get("x-bridge-losses") == loss


def refusal(message: str) -> Reply:
    envelope = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}}
    return Reply([json.dumps(envelope).encode()], status=400)


ENABLE = "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("gemini-3.6-flash", f"{ENABLE} with Function calling."),
        ("gemini-3.5-flash-lite", "Tool use with function calling is unsupported"),
    ],
)
def test_a_refused_combination_is_dropped_and_remembered(bridge, gemini, model, message):
    gemini.will_say(refusal(message))
    answer = with_tools(bridge, WEB_SEARCH, model=model)
    assert answer.status_code == 200
    refused, repaired = (each.body for each in gemini.asked)
    assert len(refused["tools"]) == 2
    assert [sorted(tool) for tool in repaired["tools"]] == [["functionDeclarations"]]
    time.sleep(BETWEEN_LOOKS)  # until every worker knows it
    answer = with_tools(bridge, WEB_SEARCH, model=model)
    assert len(gemini.asked) == 3
    assert [sorted(tool) for tool in sent(gemini)["tools"]] == [["functionDeclarations"]]
    assert answer.headers["x-bridge-losses"] == LOSS


def test_a_refusal_in_other_words_is_repaired_and_not_remembered(bridge, gemini, said):
    client = Client(bridge, stream=False)
    gemini.will_say(answer_of(said))
    history = client.responses([])
    gemini.will_say(refusal("Request contains an invalid argument."))
    client.responses(history)
    assert len(gemini.asked) == 3
    assert not any("toolCall" in part for part in returned_parts(gemini))
    assert "includeServerSideToolInvocations" not in sent(gemini)["toolConfig"]
    gemini.will_say(sse(text_chunk("Hello.", "STOP")))
    client.responses(history)
    assert returned_parts(gemini) == said


def test_a_refused_signature_of_a_search_drops_its_parts(bridge, gemini, said):
    client = Client(bridge, stream=False)
    gemini.will_say(answer_of(said))
    history = client.responses([])
    gemini.will_say(refusal("Corrupted thought signature."))
    client.responses(history)
    assert not any("toolCall" in part for part in returned_parts(gemini))
    assert len(sent(gemini)["tools"]) == 2
