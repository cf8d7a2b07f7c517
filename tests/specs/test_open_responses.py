"""The cases of Open Responses' compliance suite that use HTTP, written from its document of 2026-04-24.

The suite has ten of them and seven for WebSocket. Here each case of a response runs whole and streamed, and
Gemini's part is scripted, so that the tests also see what reaches the model.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from open_responses import DOCUMENT, OpenResponsesClient, broken_rules
from scripted_gemini import call_chunk, sse, text_chunk

MODEL = "gemini-3.1-pro-preview"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Reads the weather of a place.",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "City and state."}},
        "required": ["location"],
    },
}


def message(role: str, content: Any, **more: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **more}


def user(content: Any) -> dict[str, Any]:
    return message("user", content)


#: Both lead to the dialect `openai`: by name, and as a client that the settings do not know.
HEADERS = [{"x-bridge-dialect": "openai"}, {"User-Agent": "Compliance/1.0"}]


@pytest.fixture(params=HEADERS, ids=["named", "unknown"])
def client(bridge, request):
    return OpenResponsesClient(bridge.address, request.param)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def respond(client, gemini, request):
    """Sends the items with a scripted reply of Gemini."""

    def respond(reply: list[bytes], *items: Any, **fields: Any):
        gemini.will_say(reply)
        return client.respond({"model": MODEL, "input": list(items), **fields}, stream=request.param)

    return respond


def reply(*texts: str) -> list[bytes]:
    *first, last = texts
    return sse(*map(text_chunk, first), text_chunk(last, "STOP"))


def completed_text(received) -> str:
    """The text of a completed response. The deltas of a stream have the same text."""
    assert received.body["status"] == "completed"
    (item,) = received.body["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    text = "".join(part["text"] for part in item["content"])
    deltas = [each["delta"] for each in received.events if each["type"] == "response.output_text.delta"]
    assert not received.events or "".join(deltas) == text
    return text


def asked_turns(gemini) -> list[tuple[str, list[Any]]]:
    (asked,) = gemini.asked
    return [(content["role"], content["parts"]) for content in asked.body["contents"]]


def test_basic_response(respond, gemini):
    received = respond(reply("Good morning, world."), user("Greet me in three words."))
    assert completed_text(received) == "Good morning, world."
    assert asked_turns(gemini) == [("user", [{"text": "Greet me in three words."}])]


def test_streaming_response(client, gemini):
    gemini.will_say(reply("1, 2, ", "3, 4, ", "5"))
    received = client.respond({"model": MODEL, "input": [user("Count to five.")]}, stream=True)
    assert completed_text(received) == "1, 2, 3, 4, 5"
    assert [event["type"] for event in received.events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_system_prompt(respond, gemini):
    received = respond(reply("Ahoy!"), message("system", "Speak like a pirate."), user("Greet me."))
    assert completed_text(received) == "Ahoy!"
    assert gemini.asked[0].body["systemInstruction"]["parts"] == [{"text": "Speak like a pirate."}]
    assert asked_turns(gemini) == [("user", [{"text": "Greet me."}])]


def test_assistant_phase(respond, gemini):
    items = [
        message("assistant", "I look the number up.", phase="commentary"),
        message("assistant", "It is four.", phase="final_answer"),
        user("Repeat the number."),
    ]
    assert completed_text(respond(reply("Four."), *items)) == "Four."
    texts = [part["text"] for _, parts in asked_turns(gemini) for part in parts]
    assert texts[-3:] == ["I look the number up.", "It is four.", "Repeat the number."]


def test_response_output_phase_schema(client, gemini):
    """The original case sends no request: it checks that the schema has the two labels of a message."""
    gemini.will_say(reply("Four."))
    body = client.respond({"model": MODEL, "input": "Two and two?"}, stream=False).body
    labelled = copy.deepcopy(body["output"] * 2)
    for item, phase in zip(labelled, ("commentary", "final_answer"), strict=True):
        item["phase"] = phase
    unlabelled = DOCUMENT.findings("ResponseResource", body)
    assert DOCUMENT.findings("ResponseResource", {**body, "output": labelled}) == unlabelled
    labelled[0]["phase"] = "aside"
    assert broken_rules("ResponseResource", {**body, "output": labelled})


def test_tool_calling(respond, gemini):
    call = sse(call_chunk("get_weather", {"location": "Oslo"}, "call_1", finish="STOP"))
    received = respond(call, user("How is the weather in Oslo?"), tools=[WEATHER])
    assert received.body["status"] == "completed"
    (item,) = received.body["output"]
    assert (item["type"], item["name"], item["arguments"]) == (
        "function_call",
        "get_weather",
        '{"location":"Oslo"}',
    )
    (declared,) = gemini.asked[0].body["tools"][0]["functionDeclarations"]
    assert declared["name"] == "get_weather"
    if received.events:
        about_the_call = [event["type"] for event in received.events if "item" in event or "item_id" in event]
        assert about_the_call == [
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
        ]


def test_image_input(respond, gemini):
    content = [
        {"type": "input_text", "text": "What is in this image?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
    ]
    assert completed_text(respond(reply("One pixel."), user(content))) == "One pixel."
    ((_, parts),) = asked_turns(gemini)
    assert parts[1] == {"inlineData": {"mimeType": "image/png", "data": PIXEL}}


def test_multi_turn(respond, gemini):
    items = [user("I am called Alice."), message("assistant", "Hello Alice."), user("What is my name?")]
    assert completed_text(respond(reply("Alice."), *items)) == "Alice."
    assert asked_turns(gemini) == [
        ("user", [{"text": "I am called Alice."}]),
        ("model", [{"text": "Hello Alice."}]),
        ("user", [{"text": "What is my name?"}]),
    ]


def test_compact_response(client, gemini):
    gemini.will_say(reply("Launch on Tuesday; tell support before."), reply("Tuesday."))
    # A conversation that was summarised before would not reach Gemini.
    items = [
        user(f"We launch on Tuesday, after we told support. {id(client)}"),
        message("assistant", "Understood."),
    ]
    compacted = client.compact({"model": MODEL, "prompt_cache_key": "compliance", "input": items})
    assert compacted["object"] == "response.compaction"
    assert [item["type"] for item in compacted["output"]] == ["message", "compaction"]
    assert compacted["output"][0]["content"][0]["text"] == items[0]["content"]
    texts = [part["text"] for _, parts in asked_turns(gemini) for part in parts]
    assert items[0]["content"] in texts[0]
    assert "Understood." in texts[0]
    gemini.asked.clear()
    continued = {"model": MODEL, "input": [*compacted["output"], user("When is the launch?")]}
    assert completed_text(client.respond(continued, stream=False)) == "Tuesday."
    texts = [part["text"] for _, parts in asked_turns(gemini) for part in parts]
    assert texts[0] == items[0]["content"]
    assert "Launch on Tuesday; tell support before." in texts[1]
    assert texts[2] == "When is the launch?"


def test_compact_missing_model(client, gemini):
    refused = client.post("/responses/compact", {"input": [user("Compact this.")]})
    assert refused.status_code in (400, 422)
    assert refused.json()["error"]["param"] == "model"
    assert gemini.asked == []
