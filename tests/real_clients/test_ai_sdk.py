"""The real AI SDK from npm, driven by `ai_sdk.mjs`, through the bridge against a scripted Gemini."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agents import ask_ai_sdk
from scripted_gemini import CUT, Reply, call_chunk, sse, text_chunk

HELLO = [{"role": "user", "content": "Hello"}]
THINKING = {"reasoningSummary": "auto"}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def ai_sdk(bridge, tmp_path):
    def ask(messages: list[Any] = HELLO, model: str = "gpt-5", **task: Any) -> Any:
        options = {"store": False, **task.pop("options", {})}
        task |= {"model": model, "messages": messages, "options": options}
        return ask_ai_sdk(bridge.address, tmp_path, {"provider": "responses", **task})

    return ask


def thought(text: str) -> Any:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text, "thought": True}]}}]}


@BOTH
def test_text_and_its_usage(ai_sdk, gemini, stream):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo "), text_chunk("there.", "STOP")))
    told = ai_sdk(stream=stream)
    assert told["text"] == "Hello there."
    assert told["finishReason"] == "stop"
    assert (told["usage"]["inputTokens"], told["usage"]["outputTokens"]) == (5, 2)
    if stream:
        assert told["deltas"] == ["Hel", "lo ", "there."]
        assert told["errors"] == []


@BOTH
def test_tools_run_and_gemini_gets_their_results_and_its_signature(ai_sdk, gemini, stream):
    gemini.will_say(
        sse(
            thought("Two cities."),
            call_chunk("get_weather", {"city": "Oslo"}, f"oslo-{stream}", "c2lnbmVk"),
            call_chunk("get_weather", {"city": "Rome"}, f"rome-{stream}", finish="STOP"),
        ),
        sse(text_chunk("Clear in both.", "STOP")),
    )
    told = ai_sdk(stream=stream, tools=True, options=THINKING)
    first, second = told["steps"]
    assert [call["input"] for call in first["calls"]] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert [result["output"]["city"] for result in first["results"]] == ["Oslo", "Rome"]
    assert (first["finishReason"], second["finishReason"]) == ("tool-calls", "stop")
    assert told["text"] == "Clear in both."

    asked, said, answered = gemini.asked[-1].body["contents"]
    assert asked["parts"] == [{"text": "Hello"}]
    assert said["parts"][0] == {"text": "Two cities.", "thought": True}
    calls = said["parts"][1:]
    assert [call["functionCall"]["args"]["city"] for call in calls] == ["Oslo", "Rome"]
    assert [call.get("thoughtSignature") for call in calls] == ["c2lnbmVk", None]
    assert [part["functionResponse"]["response"] for part in answered["parts"]] == [
        {"city": "Oslo", "sky": "clear"},
        {"city": "Rome", "sky": "clear"},
    ]


@BOTH
def test_reasoning_is_shown_and_comes_back_in_the_next_turn(ai_sdk, gemini, stream):
    signed = thought("I weigh it.")
    signed["candidates"][0]["content"]["parts"][0]["thoughtSignature"] = "b3du"
    gemini.will_say(sse(signed, text_chunk("Yes.", "STOP")))
    told = ai_sdk(stream=stream, options=THINKING)
    assert (told["reasoning"], told["text"]) == ("I weigh it.", "Yes.")
    assert gemini.asked[-1].body["generationConfig"]["thinkingConfig"]["includeThoughts"] is True

    follow_up = [*HELLO, *told["messages"], {"role": "user", "content": "Why?"}]
    assert ai_sdk(follow_up, stream=stream, options=THINKING)["text"] == "Hello."
    said = gemini.asked[-1].body["contents"][1]["parts"]
    assert said == [{"text": "I weigh it.", "thought": True, "thoughtSignature": "b3du"}, {"text": "Yes."}]


def test_an_image_reaches_gemini(ai_sdk, gemini):
    dot = "iVBORw0KGgo="
    content = [{"type": "text", "text": "Look"}, {"type": "image", "image": dot, "mediaType": "image/png"}]
    assert ai_sdk([{"role": "user", "content": content}])["text"] == "Hello."
    parts = gemini.asked[-1].body["contents"][0]["parts"]
    assert parts == [{"text": "Look"}, {"inlineData": {"mimeType": "image/png", "data": dot}}]


@BOTH
def test_an_answer_truncated_by_the_limit_reports_it(ai_sdk, gemini, stream):
    gemini.will_say(sse(text_chunk("Once upon", "MAX_TOKENS")))
    told = ai_sdk(stream=stream)
    assert (told["text"], told["finishReason"]) == ("Once upon", "length")


@BOTH
@pytest.mark.parametrize(
    ("status", "google", "told_status", "repeatable"),
    [
        (400, "INVALID_ARGUMENT", 400, False),
        (429, "RESOURCE_EXHAUSTED", 429, True),
        (503, "UNAVAILABLE", 503, True),
    ],
)
def test_an_error_is_an_error_of_the_sdk(ai_sdk, gemini, stream, status, google, told_status, repeatable):
    envelope = {"error": {"code": status, "message": "Told by Gemini.", "status": google}}
    gemini.will_say(Reply([json.dumps(envelope).encode()], status=status))
    (error,) = ai_sdk(stream=stream)["errors"]
    assert (error["name"], error["statusCode"]) == ("AI_APICallError", told_status)
    assert error["isRetryable"] is repeatable
    assert error["message"]
    assert error["data"]["error"]["message"] == error["message"]


@pytest.mark.parametrize("ending", [[], [CUT]], ids=["no finish reason", "connection lost"])
def test_a_broken_stream_is_an_error_and_no_answer(ai_sdk, gemini, ending):
    gemini.will_say([*sse(text_chunk("Half an ans")), *ending])
    told = ai_sdk(stream=True)
    assert told["deltas"] == ["Half an ans"]
    (error,) = told["errors"]
    assert error["data"]["type"] == "response.failed"
    assert error["data"]["response"]["error"]["code"] == "server_error"


@BOTH
def test_a_google_search_is_reported_as_an_executed_tool(ai_sdk, gemini, stream):
    found = text_chunk("Blue.", "STOP")
    found["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["who won"]}
    gemini.will_say(sse(found))
    told = ai_sdk(stream=stream, search=True)
    assert gemini.asked[-1].body["tools"] == [{"googleSearch": {}}]
    assert told["text"] == "Blue."
    (step,) = told["steps"]
    assert [result["output"]["action"] for result in step["results"]] == [
        {"type": "search", "query": "who won", "queries": ["who won"]}
    ]
