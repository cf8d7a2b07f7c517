"""LangChain's OpenAI model over Responses against real gunicorn."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from scripted_gemini import call_chunk, sse, text_chunk


@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    return f"{city}: sunny"


@pytest.fixture
def model(bridge):
    return ChatOpenAI(
        model="gemini-3.1-pro-preview",
        base_url=f"{bridge.address}/v1",
        api_key="client-key",
        max_retries=0,
        use_responses_api=True,
        output_version="responses/v1",
    )


def test_a_stream_adds_up_with_its_usage(model, gemini):
    gemini.will_say(sse(text_chunk("Good "), text_chunk("day.", "STOP")))
    pieces = list(model.stream("Hello"))
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = whole + piece
    assert [piece.text for piece in pieces if piece.text] == ["Good ", "day."]
    assert whole.text == "Good day."
    assert whole.usage_metadata["total_tokens"] == 7
    assert whole.response_metadata["status"] == "completed"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_tool_loop_keeps_its_signatures(model, gemini, streaming):
    thought = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hm.", "thought": True}]}}]}
    gemini.will_say(
        sse(
            thought,
            call_chunk("get_weather", {"city": "Oslo"}, f"oslo-{streaming}", "c2lnbmVk"),
            call_chunk("get_weather", {"city": "Rome"}, f"rome-{streaming}", finish="STOP"),
        ),
        sse(text_chunk("Sunny twice.", "STOP")),
    )
    bound = model.bind_tools([get_weather]).bind(
        include=["reasoning.encrypted_content"], reasoning={"summary": "auto"}
    )
    question = HumanMessage("Weather?")
    if streaming:
        first, *rest = bound.stream([question])
        said = sum(rest, first)
    else:
        said = bound.invoke([question])
    assert [call["args"] for call in said.tool_calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    results = [
        ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
        for call in reversed(said.tool_calls)
    ]
    assert bound.invoke([question, said, *results]).text == "Sunny twice."
    _, model_turn, user_turn = gemini.asked[-1].body["contents"]
    calls = [part for part in model_turn["parts"] if "functionCall" in part]
    assert model_turn["parts"][0] == {"text": "Hm.", "thought": True}
    assert [part.get("thoughtSignature") for part in calls] == ["c2lnbmVk", None]
    assert [part["functionResponse"]["response"] for part in user_turn["parts"]] == [
        {"result": "Oslo: sunny"},
        {"result": "Rome: sunny"},
    ]
