"""LangChain's Anthropic model against real gunicorn."""

from __future__ import annotations

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from scripted_gemini import call_chunk, sse, text_chunk

WEATHER = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture
def model(bridge):
    return ChatAnthropic(
        model="gemini-3.1-pro-preview",
        base_url=bridge.address,
        api_key="client-key",
        max_retries=0,
        max_tokens=1000,
    )


def test_a_stream_adds_up_with_its_usage(model, gemini):
    gemini.will_say(sse(text_chunk("Good "), text_chunk("day.", "STOP")))
    whole = None
    for chunk in model.stream("Hello"):
        whole = chunk if whole is None else whole + chunk
    assert whole.text == "Good day."
    assert whole.usage_metadata["input_tokens"] == 5
    assert whole.usage_metadata["output_tokens"] == 2


def test_a_tool_loop_keeps_its_signature_without_thinking(model, gemini):
    question, bound = HumanMessage("Weather?"), model.bind_tools([WEATHER])
    gemini.will_say(sse(call_chunk("get_weather", {"city": "Oslo"}, "langchain-1", "c2lnbmVk", "STOP")))
    said = bound.invoke([question])
    assert said.tool_calls[0]["args"] == {"city": "Oslo"}
    bound.invoke([question, said, ToolMessage("sunny", tool_call_id="langchain-1")])
    part = gemini.asked[-1].body["contents"][1]["parts"][0]
    assert part["thoughtSignature"] == "c2lnbmVk"
    assert gemini.asked[-1].body["contents"][2]["parts"][0]["functionResponse"]["name"] == "get_weather"
