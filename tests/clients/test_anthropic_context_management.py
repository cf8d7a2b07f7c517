"""The real `anthropic` package clears old tool uses and thoughts through the bridge, whole and streamed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import anthropic
import orjson
import pytest
from anthropic import Anthropic
from anthropic.types.beta import BetaClearToolUses20250919EditResponse
from scripted_gemini import Asked, sse, text_chunk

BETA = "context-management-2025-06-27"
MODEL = "gemini-3.8-flash"
USES: dict[str, Any] = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 7}}
THINKING: dict[str, Any] = {"type": "clear_thinking_20251015"}
ROUNDS = 8


def counted(body: dict[str, Any]) -> int:
    return len(orjson.dumps(body["contents"])) // 4


@pytest.fixture
def client(bridge, gemini):
    def answer(asked: Asked) -> Any:
        if asked.path.endswith(":countTokens"):
            return [orjson.dumps({"totalTokens": counted(asked.body["generateContentRequest"])})]
        tokens = counted(asked.body)
        return sse(text_chunk("Done.", "STOP", promptTokenCount=tokens, totalTokenCount=tokens + 1))

    gemini.will_answer(answer)
    with Anthropic(base_url=bridge.address, api_key="client-key", max_retries=0) as sdk:
        yield sdk


def history(name: str = "t") -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": "Find it."}]
    for number in range(ROUNDS):
        call = {"type": "tool_use", "id": f"{name}{number}", "name": "run", "input": {"of": "a place " * 9}}
        thought = {"type": "thinking", "thinking": f"Thought {number}.", "signature": ""}
        result = {"type": "tool_result", "tool_use_id": f"{name}{number}", "content": f"{number} " * 400}
        messages.append({"role": "assistant", "content": [thought, call]})
        messages.append({"role": "user", "content": [result]})
    said = [{"type": "thinking", "thinking": "The end.", "signature": ""}, {"type": "text", "text": "Found."}]
    return [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": "And now?"}]


def ask(*edits: Any, **more: Any) -> dict[str, Any]:
    management = {"context_management": {"edits": list(edits)}} if edits else {}
    messages = more.pop("messages", None) or history()
    return {"model": MODEL, "max_tokens": 100, "messages": messages, "betas": [BETA], **management, **more}


def sent(gemini) -> list[Any]:
    contents = gemini.asked[-1].body["contents"]
    return [part for content in contents for part in content["parts"]]


def test_old_tool_uses_are_cleared_and_the_answer_says_so(client, gemini):
    message = client.beta.messages.create(**ask(USES))
    (applied,) = message.context_management.applied_edits
    assert isinstance(applied, BetaClearToolUses20250919EditResponse)
    assert applied.cleared_tool_uses == ROUNDS - 3
    assert 4 * 200 < applied.cleared_input_tokens < 5 * 420
    results = [part["functionResponse"]["response"] for part in sent(gemini) if "functionResponse" in part]
    assert ["removed" in each for each in results] == [True] * 5 + [False] * 3
    assert all(part["functionCall"]["args"] for part in sent(gemini) if "functionCall" in part)


def test_the_stream_says_the_same_in_its_last_delta(client):
    whole = client.beta.messages.create(**ask(USES))
    with client.beta.messages.stream(**ask(USES)) as stream:
        deltas = [event for event in stream if event.type == "message_delta"]
        final = stream.get_final_message()
    (delta,) = deltas
    assert final.context_management == delta.context_management
    (streamed,), (at_once,) = delta.context_management.applied_edits, whole.context_management.applied_edits
    assert (streamed.type, streamed.cleared_tool_uses) == (at_once.type, at_once.cleared_tool_uses)
    assert streamed.cleared_input_tokens > 800  # each worker learns for itself how the model counts
    assert final.content[0].text == whole.content[0].text


def test_thoughts_are_cleared_before_tool_uses(client, gemini):
    edits = (
        {**THINKING, "keep": {"type": "thinking_turns", "value": 1}},
        {**USES, "clear_tool_inputs": True},
    )
    messages = [*history("s")[:-1], *history()]
    message = client.beta.messages.create(**ask(*edits, messages=messages))
    thinking, uses = message.context_management.applied_edits
    assert (thinking.type, thinking.cleared_thinking_turns) == ("clear_thinking_20251015", 1)
    assert (uses.type, uses.cleared_tool_uses) == ("clear_tool_uses_20250919", 10)
    thoughts = [part["text"] for part in sent(gemini) if part.get("thought")]
    assert thoughts == [*(f"Thought {number}." for number in range(ROUNDS)), "The end."]
    calls = [part["functionCall"].get("args") for part in sent(gemini) if "functionCall" in part]
    assert [bool(args) for args in calls] == [False] * 10 + [True] * 6


@pytest.mark.parametrize(
    "edits",
    [
        ({**THINKING, "keep": "all"},),
        ({"type": "clear_tool_uses_20250919"},),
        ({**USES, "clear_at_least": {"type": "input_tokens", "value": 50_000}},),
        ({**USES, "exclude_tools": ["run"]},),
    ],
)
def test_an_edit_that_has_nothing_to_do_is_not_listed(client, gemini, edits):
    message = client.beta.messages.create(**ask(*edits))
    assert message.context_management.applied_edits == []
    assert "removed" not in orjson.dumps(sent(gemini)).decode()


def test_an_answer_says_nothing_of_edits_that_nobody_asked_for(client):
    assert client.beta.messages.create(**ask()).context_management is None


def test_the_count_is_of_the_shorter_prompt_and_names_the_longer(client, gemini):
    body = {name: value for name, value in ask(USES).items() if name != "max_tokens"}
    counts = client.beta.messages.count_tokens(**body)
    plain = {name: value for name, value in body.items() if name != "context_management"}
    original = client.beta.messages.count_tokens(**plain)
    assert original.context_management is None
    assert counts.context_management.original_input_tokens == original.input_tokens
    assert counts.input_tokens < original.input_tokens - 600
    used = client.beta.messages.create(**ask(USES)).usage.input_tokens
    assert counts.input_tokens == used


def test_a_client_that_clears_goes_on_with_an_unchanged_beginning(client, gemini):
    messages = history()[:-2]
    asked = []
    for number in range(12):
        client.beta.messages.create(**ask(USES, messages=messages))
        asked.append(gemini.asked[-1].body["contents"])
        call = {"type": "tool_use", "id": f"n{number}", "name": "run", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"n{number}", "content": f"new {number} " * 200}
        messages = [
            *messages,
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
    same = [later[: len(earlier)] == earlier for earlier, later in pairwise(asked)]
    assert same.count(False) == 2  # a clearing for every five new tool uses


def test_a_wrong_value_is_refused_and_named(client):
    with pytest.raises(anthropic.BadRequestError, match=r"context_management\.edits\[1\]\.type"):
        client.beta.messages.create(**ask(USES, THINKING))
    with pytest.raises(anthropic.BadRequestError, match="context_management"):
        client.beta.messages.create(**ask(extra_body={"context_management": []}))


def test_the_header_and_the_log_say_it_too(client, bridge):
    answer = client.beta.messages.with_raw_response.create(**ask(USES))
    told = answer.headers["x-bridge-context"]
    entry = bridge.request(request_id=answer.headers["request-id"])
    assert told.startswith("clear_tool_uses=5;saved=")
    assert (entry["context"], entry["notes"]["context.clear_tool_uses"]) == ({"clear_tool_uses": 5}, 1)
