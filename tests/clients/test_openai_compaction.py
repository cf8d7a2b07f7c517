"""Compaction with the real `openai` package: `/compact`, the trigger of Codex, and `context_management`."""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode

import openai
import pytest
import requests
from openai import OpenAI
from scripted_gemini import CUT, call_chunk, sse, text_chunk

from bridge.gemini.summary_part import END, START

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


def text_of(item) -> str:
    return zlib.decompress(urlsafe_b64decode(item.encrypted_content.rpartition(".")[2])).decode()


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
    assert text_of(last) == "Two boats; a third is on its way."
    assert compacted.usage.total_tokens == 7
    asked = gemini.asked[-1].body
    assert "tools" not in asked
    assert asked["store"] is False
    transcript = asked_texts(gemini)[0]
    assert '{"role":"assistant","calls":"look","arguments":{}}' in transcript
    assert '{"role":"user","result_of":"look","result":{"result":"two"}}' in transcript


def test_a_compacted_conversation_goes_on_and_is_compacted_again(client, gemini):
    gemini.will_say(SUMMARY, sse(text_chunk("Three.", "STOP")), sse(text_chunk("Three boats.", "STOP")))
    first = client.responses.compact(model=MODEL, input="How many boats?")
    window = [*as_input(first.output), {"role": "user", "content": "And now?"}]
    answer = client.responses.create(model=MODEL, input=window)
    assert answer.output_text == "Three."
    texts = asked_texts(gemini)
    assert texts == [
        "How many boats?",
        f"{START}\nTwo boats; a third is on its way.\n{END}",
        "And now?",
    ]
    again = client.responses.compact(model=MODEL, input=[*window, *as_input(answer.output)])
    assert [item.type for item in again.output] == ["message", "message", "compaction"]
    assert text_of(again.output[-1]) == "Three boats."


def test_a_stored_response_is_compacted_by_its_id(client, gemini):
    gemini.will_say(sse(text_chunk("Two.", "STOP")), SUMMARY)
    made = client.responses.create(model=MODEL, input="How many boats?")
    compacted = client.responses.compact(model=MODEL, previous_response_id=made.id)
    assert asked_texts(gemini)[0].count('"text":') == 2
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
def test_without_a_complete_summary_there_is_an_error(client, gemini, reply, request):
    gemini.will_say(reply)
    question = f"How many boats? {request.node.name}"
    with pytest.raises(openai.InternalServerError) as refused:
        client.responses.compact(model=MODEL, input=question)
    assert refused.value.status_code == 502
    assert len(gemini.asked) == 1, "the client decides whether to try again"
    gemini.will_say(SUMMARY)
    assert client.responses.compact(model=MODEL, input=question).output


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


# --- the trigger, and a threshold ----------------------------------------------------------------------

TALK = [
    {"role": "user", "content": "How many boats are there, says the trigger?"},
    {"role": "assistant", "content": "Two."},
    {"role": "user", "content": "And now?"},
]


def test_a_trigger_gets_one_compaction_item_in_a_stream(client, gemini):
    gemini.will_say(SUMMARY)
    items = [*TALK, {"type": "compaction_trigger"}]
    with client.responses.create(model=MODEL, input=items, stream=True) as stream:
        events = list(stream)
    kinds = [event.type for event in events]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.compaction.compacting",
        "response.output_item.done",
        "response.completed",
    ]
    (item,) = events[-1].response.output
    assert item.type == "compaction"
    assert text_of(item) == "Two boats; a third is on its way."
    assert events[-1].response.usage.total_tokens == 7


def test_an_equal_conversation_is_summarised_once(client, gemini):
    gemini.will_say(SUMMARY)
    items = [{**TALK[0], "content": "How many boats twice?"}, *TALK[1:], {"type": "compaction_trigger"}]
    first = client.responses.create(model=MODEL, input=items)
    second = client.responses.create(model=MODEL, input=items)
    assert text_of(first.output[0]) == text_of(second.output[0])
    assert len(gemini.asked) == 1


def long_talk(mark: str) -> list:
    """A conversation of more than 1000 tokens."""
    said = [{"role": "user", "content": f"{mark}: " + "Look at all the boats. " * 150}]
    return [*said, {"role": "assistant", "content": "I looked. " * 150}, {"role": "user", "content": "Well?"}]


COUNTED = [b'{"totalTokens": 1500}']
MANAGED = [{"type": "compaction", "compact_threshold": 1000}]


def test_at_a_threshold_the_answer_begins_with_the_item(client, gemini):
    gemini.will_say(COUNTED, SUMMARY, sse(text_chunk("Three.", "STOP")))
    items = long_talk("threshold")
    answer = client.responses.create(model=MODEL, input=items, context_management=MANAGED)
    assert [item.type for item in answer.output] == ["compaction", "message"]
    assert answer.output_text == "Three."
    said = "Two boats; a third is on its way.\n\n## Last message of the user\nWell?"
    assert asked_texts(gemini) == [f"{START}\n{said}\n{END}"]
    # The whole conversation comes back: only what follows the item counts.
    gemini.will_say(sse(text_chunk("Four.", "STOP")))
    window = [*items, *as_input(answer.output), {"role": "user", "content": "And now?"}]
    client.responses.create(model=MODEL, input=window, context_management=MANAGED)
    assert asked_texts(gemini) == [f"{START}\n{said}\n{END}", "Three.", "And now?"]


def test_below_the_threshold_nothing_happens(client, gemini):
    answer = client.responses.create(model=MODEL, input=TALK, context_management=MANAGED)
    assert [item.type for item in answer.output] == ["message"]
    assert len(gemini.asked) == 1


def test_a_summary_that_fails_at_a_threshold_costs_the_client_nothing(client, gemini):
    empty = sse(text_chunk(" ", "STOP"))
    gemini.will_say(COUNTED, empty, empty, empty, sse(text_chunk("Three.", "STOP")))
    answer = client.responses.create(model=MODEL, input=long_talk("fails"), context_management=MANAGED)
    assert [item.type for item in answer.output] == ["message"]
    assert "fails: Look at all" in asked_texts(gemini)[0]


def test_an_item_of_another_owner_or_a_changed_one_is_dropped_and_counted(client, gemini):
    gemini.will_say(SUMMARY)
    items = [{**TALK[0], "content": "How many boats of mine?"}, *TALK[1:], {"type": "compaction_trigger"}]
    (item,) = as_input(client.responses.create(model=MODEL, input=items).output)
    text = item["encrypted_content"]
    at = text.rindex(".") - 1  # the last letter of the seal
    changed = {**item, "encrypted_content": f"{text[:at]}{'0' if text[at] != '0' else '1'}{text[at + 1 :]}"}
    other = client.with_options(api_key="mallory")
    for sender, sent in ((other, item), (client, changed)):
        raw = sender.responses.with_raw_response.create(
            model=MODEL, input=[sent, {"role": "user", "content": "And now?"}]
        )
        assert raw.headers["x-bridge-losses"] == "responses.encrypted_compaction"
        assert asked_texts(gemini) == ["And now?"]
    client.responses.create(model=MODEL, input=[item, {"role": "user", "content": "And now?"}])
    assert asked_texts(gemini)[0].startswith(START)


def test_a_stored_conversation_goes_on_after_a_trigger(client, gemini):
    gemini.will_say(SUMMARY, sse(text_chunk("Three.", "STOP")))
    items = [{**TALK[0], "content": "How many stored boats?"}, *TALK[1:], {"type": "compaction_trigger"}]
    made = client.responses.create(model=MODEL, input=items)
    client.responses.create(model=MODEL, previous_response_id=made.id, input="Go on.")
    assert asked_texts(gemini)[-2:] == [f"{START}\nTwo boats; a third is on its way.\n{END}", "Go on."]
    assert "Two." not in asked_texts(gemini)
