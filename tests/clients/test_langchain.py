"""LangChain's OpenAI model against real gunicorn. It drops unknown fields, including signatures."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
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
        stream_usage=True,
    )


def test_a_stream_adds_up_with_its_usage(model, gemini):
    gemini.will_say(sse(text_chunk("Good "), text_chunk("day.", "STOP")))
    whole = None
    for chunk in model.stream("Hello"):
        whole = chunk if whole is None else whole + chunk
    assert whole.content == "Good day."
    assert whole.usage_metadata["total_tokens"] == 7


def test_signatures_survive_a_client_that_drops_them_and_another_worker(model, gemini):
    """Twelve turns over two workers: either worker finds each call's signature in the store."""
    question = HumanMessage("Weather?")
    bound = model.bind_tools([get_weather])
    for turn in range(12):
        signature = f"signature{turn:03}"
        call_id = f"turn-{turn}"
        gemini.will_say(sse(call_chunk("get_weather", {"city": "Oslo"}, call_id, signature, "STOP")))
        said = bound.invoke([question])
        assert said.tool_calls[0]["args"] == {"city": "Oslo"}
        bound.invoke(
            [question, said, ToolMessage(get_weather.invoke({"city": "Oslo"}), tool_call_id=call_id)]
        )
        part = gemini.asked[-1].body["contents"][1]["parts"][0]
        assert part["thoughtSignature"] == signature


def test_a_call_from_elsewhere_gets_the_documented_dummy(model, gemini):
    call = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "from-another-model"}
    said = AIMessage(content="", tool_calls=[call])
    model.invoke([HumanMessage("Weather?"), said, ToolMessage("sunny", tool_call_id="from-another-model")])
    part = gemini.asked[-1].body["contents"][1]["parts"][0]
    assert part["thoughtSignature"] == "skip_thought_signature_validator"


def test_structured_output_asks_gemini_for_the_schema(model, gemini):
    gemini.will_say(sse(text_chunk('{"city": "Oslo"}', "STOP")))
    schema = {
        "title": "place",
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    assert model.with_structured_output(schema, method="json_schema").invoke("Where?") == {"city": "Oslo"}
    generation = gemini.asked[-1].body["generationConfig"]
    assert generation["responseMimeType"] == "application/json"
    assert generation["responseJsonSchema"]["properties"] == {"city": {"type": "string"}}
