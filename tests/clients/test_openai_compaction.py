"""Compaction with the real `openai` package: `POST /v1/responses/compact`."""

from __future__ import annotations

import openai
import pytest
import requests
from openai import OpenAI
from scripted_gemini import CUT, call_chunk, sse, text_chunk

from bridge.gemini.summary_part import START
from bridge.protocols.summary_seal import StandsFor, SummarySeal

MODEL = "gemini-3.1-pro-preview"
SUMMARY = sse(text_chunk("Two boats; "), text_chunk("a third is on its way.", "STOP"))


@pytest.fixture
def client(bridge):
    with OpenAI(base_url=f"{bridge.address}/v1", api_key="alice", max_retries=0) as sdk:
        yield sdk


def as_input(items) -> list:
    """The items as input. The SDK's type for messages in an output has no `input_text`, so it would warn."""
    return [item.to_dict(warnings=False) for item in items]


def asked_texts(gemini) -> list[str]:
    contents = gemini.asked[-1].body["contents"]
    return [part["text"] for content in contents for part in content["parts"] if "text" in part]


def test_messages_of_the_client_stay_and_the_rest_becomes_a_summary(client, gemini):
    gemini.will_say(SUMMARY)
    items = [
        {"role": "developer", "content": "Be exact."},
        {"role": "user", "content": "How many boats?"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "two"},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "And now?"},
    ]
    compacted = client.responses.compact(model=MODEL, input=items, instructions="Count boats.")
    assert compacted.object == "response.compaction"
    *kept, last = compacted.output
    assert [(item.role, item.content[0].text) for item in kept] == [
        ("developer", "Be exact."),
        ("user", "How many boats?"),
        ("user", "And now?"),
    ]
    assert opened_summary(last.encrypted_content).endswith("Two boats; a third is on its way.")
    assert compacted.usage.total_tokens == 7
    asked = gemini.asked[-1].body
    system = "\n".join(part["text"] for part in asked["systemInstruction"]["parts"])
    assert "Count boats." in system
    assert "Be exact." in system
    assert asked["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


def test_a_compacted_conversation_goes_on_and_is_compacted_again(client, gemini):
    gemini.will_say(SUMMARY, sse(text_chunk("Three.", "STOP")), sse(text_chunk("Three boats.", "STOP")))
    first = client.responses.compact(model=MODEL, input="How many boats?")
    window = [*as_input(first.output), {"role": "user", "content": "And now?"}]
    answer = client.responses.create(model=MODEL, input=window)
    assert answer.output_text == "Three."
    texts = asked_texts(gemini)
    assert (texts[0], texts[2]) == ("How many boats?", "And now?")
    assert texts[1].endswith("Two boats; a third is on its way.")
    again = client.responses.compact(model=MODEL, input=[*window, *as_input(answer.output)])
    assert [item.type for item in again.output] == ["message", "message", "compaction"]
    assert opened_summary(again.output[-1].encrypted_content).endswith("Three boats.")


def test_a_stored_response_is_compacted_by_its_id(client, gemini):
    gemini.will_say(sse(text_chunk("Two.", "STOP")), SUMMARY)
    made = client.responses.create(model=MODEL, input="How many boats?")
    compacted = client.responses.compact(model=MODEL, previous_response_id=made.id)
    assert asked_texts(gemini)[:2] == ["How many boats?", "Two."]
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(compacted.id)


def test_a_stored_response_of_another_owner_is_not_compacted(client, gemini):
    made = client.responses.create(model=MODEL, input="How many boats?")
    with pytest.raises(openai.BadRequestError) as refused:
        client.with_options(api_key="mallory").responses.compact(model=MODEL, previous_response_id=made.id)
    assert refused.value.code == "previous_response_not_found"
    assert len(gemini.asked) == 1


@pytest.mark.parametrize(
    "reply",
    [
        sse(text_chunk("Two boats and", "MAX_TOKENS")),
        sse(text_chunk("  ", "STOP")),
        sse(text_chunk("", "SAFETY")),
        sse(call_chunk("look", {}, "call_1", finish="STOP")),
        [*sse(text_chunk("Two")), CUT],
    ],
    ids=["too long", "blank", "filtered", "a call", "broken off"],
)
def test_without_a_complete_summary_there_is_an_error(client, gemini, reply):
    gemini.will_say(reply)
    with pytest.raises(openai.InternalServerError) as refused:
        client.responses.compact(model=MODEL, input="How many boats?")
    assert refused.value.status_code == 502


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "Hi"}, "model"),
        ({"model": 5, "input": "Hi"}, "model"),
        ({"model": MODEL, "input": 5}, "input"),
        ({"model": MODEL, "input": ["Hi"]}, "input[0]"),
        ({"model": MODEL, "input": [{"type": "message"}]}, "input[0].role"),
        ({"model": MODEL}, "input"),
        ({"model": MODEL, "input": []}, "input"),
        ({"model": MODEL, "input": "Hi", "instructions": 5}, "instructions"),
        ({"model": MODEL, "input": "Hi", "service_tier": "best"}, "service_tier"),
        ({"model": MODEL, "previous_response_id": "resp_unknown"}, "previous_response_id"),
        ({"model": MODEL, "previous_response_id": "x" * 129}, "previous_response_id"),
    ],
)
def test_wrong_requests_are_refused(bridge, gemini, body, param):
    refused = requests.post(f"{bridge.address}/v1/responses/compact", json=body, timeout=30)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    assert gemini.asked == []


@pytest.mark.parametrize("text", ["Two boats.", "ÄÖ 船 🛶", "a\nb"])
def test_a_summary_is_read_again(text):
    assert opened_summary(sealed_summary(text)).endswith(text)


@pytest.mark.parametrize("text", [None, 5, "", "gAAAAAB", "bridge-summary-1.*", "bridge-summary-1.gICA"])
def test_texts_of_other_vendors_are_not_read(text):
    assert opened_summary(text) is None
