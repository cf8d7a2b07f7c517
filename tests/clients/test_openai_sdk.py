"""The real `openai` package against real gunicorn and a scripted Gemini."""

from __future__ import annotations

import openai
import pytest
from openai import OpenAI
from scripted_gemini import CUT, Reply, call_chunk, sse, text_chunk
from transcripts import NAMES, json_lines

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def client(bridge):
    with OpenAI(base_url=f"{bridge.address}/v1", api_key="client-key", max_retries=0) as sdk:
        yield sdk


def test_text_streams_in_the_chunks_gemini_sent(client, gemini):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo "), text_chunk("there.", "STOP")))
    with client.chat.completions.stream(model="gpt-5", messages=HELLO) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta" and event.delta]
        final = stream.get_final_completion()
    assert deltas == ["Hel", "lo ", "there."]
    assert final.choices[0].message.content == "Hello there."
    assert final.choices[0].finish_reason == "stop"
    assert final.model == "gpt-5"


def test_two_parallel_calls_stream_and_their_results_go_back_signed(client, gemini):
    gemini.will_say(
        sse(
            call_chunk("get_weather", {"city": "Paris"}, "c1", signature="c2lnbmF0dXJl"),
            call_chunk("get_weather", {"city": "Rome"}, "c2", finish="STOP"),
        )
    )
    with client.chat.completions.stream(
        model="gemini-3.1-pro-preview", messages=HELLO, tools=TOOLS
    ) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        message = stream.get_final_completion().choices[0].message
    assert [(event.name, event.arguments) for event in done] == [
        ("get_weather", '{"city":"Paris"}'),
        ("get_weather", '{"city":"Rome"}'),
    ]
    assert [call.id for call in message.tool_calls] == ["c1", "c2"]

    results = [{"role": "tool", "tool_call_id": each, "content": f"{each}: sunny"} for each in ("c2", "c1")]
    echoed = message.model_dump(exclude_none=True)
    client.chat.completions.create(
        model="gemini-3.1-pro-preview", messages=[*HELLO, echoed, *results], tools=TOOLS
    )
    _, said, answered = gemini.asked[-1].body["contents"]
    assert [part["functionCall"]["args"] for part in said["parts"]] == [{"city": "Paris"}, {"city": "Rome"}]
    assert said["parts"][0]["thoughtSignature"] == "c2lnbmF0dXJl"
    assert "thoughtSignature" not in said["parts"][1]
    assert [part["functionResponse"]["response"] for part in answered["parts"]] == [
        {"result": "c1: sunny"},
        {"result": "c2: sunny"},
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_sdks_accumulated_stream_equals_the_whole_answer(client, gemini, name):
    """The SDK accumulates the stream to the body of the unstreamed answer."""
    gemini.will_say(sse(*json_lines(name)), sse(*json_lines(name)))
    options = {"model": "gemini-3.8-flash", "messages": HELLO}
    try:
        whole = client.chat.completions.create(**options).to_dict()
    except openai.InternalServerError:
        with pytest.raises(openai.APIError), client.chat.completions.stream(**options) as stream:
            stream.get_final_completion()
        return
    with client.chat.completions.stream(**options, stream_options={"include_usage": True}) as stream:
        try:
            streamed = stream.get_final_completion().to_dict()
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
            # This SDK raises for every truncated or filtered answer of any server.
            reasons = {choice["finish_reason"] for choice in whole["choices"]}
            assert reasons & {"length", "content_filter"}
            return
    assert comparable(streamed) == comparable(whole)


def comparable(completion: dict) -> dict:
    """Remove what always differs: the answer's ids, and the SDK's own marks."""
    made = ("id", "created", "index", "parsed", "parsed_arguments")
    if isinstance(completion, list):
        return [comparable(item) for item in completion]
    if not isinstance(completion, dict):
        return completion
    return {
        key: comparable(value)
        for key, value in completion.items()
        if key not in made and value not in (None, "")
    }


def test_usage_counts_cached_and_reasoning_tokens(client, gemini):
    usage = {
        "promptTokenCount": 100,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 20,
        "cachedContentTokenCount": 64,
        "totalTokenCount": 127,
    }
    gemini.will_say(sse(text_chunk("Yes.", "STOP", **usage)))
    counted = client.chat.completions.create(model="gpt-5", messages=HELLO).usage
    assert (counted.prompt_tokens, counted.completion_tokens, counted.total_tokens) == (100, 27, 127)
    assert counted.prompt_tokens_details.cached_tokens == 64
    assert counted.completion_tokens_details.reasoning_tokens == 20


@pytest.mark.parametrize(
    ("status", "google", "raised"),
    [
        (400, "INVALID_ARGUMENT", openai.BadRequestError),
        (404, "NOT_FOUND", openai.NotFoundError),
        (429, "RESOURCE_EXHAUSTED", openai.RateLimitError),
        (503, "UNAVAILABLE", openai.InternalServerError),
        (403, "PERMISSION_DENIED", openai.InternalServerError),
    ],
)
def test_errors_arrive_as_the_sdks_own_exceptions(client, gemini, status, google, raised):
    envelope = b'{"error": {"code": %d, "message": "Told by Gemini.", "status": "%b"}}' % (
        status,
        google.encode(),
    )
    for stream in (True, False):
        gemini.will_say(Reply([envelope], status=status))
        with pytest.raises(raised):
            client.chat.completions.create(model="gemini-3.8-flash", messages=HELLO, stream=stream)


@pytest.mark.parametrize("ending", [[], [CUT], [b'{\n  "error": {"code": 503, "status": "UNAVAILABLE"}\n}']])
def test_a_broken_stream_raises_and_is_never_a_complete_answer(client, gemini, ending):
    gemini.will_say([*sse(text_chunk("Half an ans")), *ending])
    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model="gpt-5", messages=HELLO, stream=True))


def test_models_are_listed(client, gemini):
    names = {model.id for model in client.models.list()}
    assert {"gemini-3.1-pro-preview", "gpt-5"} <= names
    assert client.models.retrieve("gpt-5").id == "gpt-5"


def test_the_clients_key_is_not_sent_on_and_ours_only_in_its_header(client, gemini, bridge, canary_key):
    client.chat.completions.create(model="gpt-5", messages=HELLO)
    asked = gemini.asked[-1]
    assert asked.headers["x-goog-api-key"] == canary_key
    assert "client-key" not in str(asked)
    assert canary_key not in asked.path
    assert canary_key not in bridge.lines()
    assert "client-key" not in bridge.lines()


CITED = {
    "webSearchQueries": ["weather"],
    "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
    "groundingSupports": [
        {"segment": {"startIndex": 7, "endIndex": 13, "text": "Sunny."}, "groundingChunkIndices": [0]}
    ],
}


@pytest.mark.parametrize("stream", [True, False])
def test_citations_are_annotations_with_the_characters_of_the_text(client, gemini, stream):
    last = text_chunk("Sunny.", "STOP")
    last["candidates"][0]["groundingMetadata"] = CITED
    gemini.will_say(sse(text_chunk("Café: "), last))
    ask = {"model": "gpt-5", "messages": HELLO, "web_search_options": {}}
    if stream:
        with client.chat.completions.stream(**ask) as events:
            message = events.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(**ask).choices[0].message
    (annotation,) = message.to_dict()["annotations"]
    cited = annotation["url_citation"]
    assert (cited["url"], cited["title"]) == ("https://a.example", "A")
    assert message.content[cited["start_index"] : cited["end_index"]] == "Sunny."


def test_a_safety_stop_is_a_refusal_with_its_reason(client, gemini):
    gemini.will_say(sse(text_chunk("Well", "SAFETY")), sse(text_chunk("Well", "SAFETY")))
    chunks = list(client.chat.completions.create(model="gpt-5", messages=HELLO, stream=True))
    choice = client.chat.completions.create(model="gpt-5", messages=HELLO).choices[0]
    assert [choice.finish_reason, chunks[-1].choices[0].finish_reason] == ["content_filter"] * 2
    assert "(SAFETY)" in choice.message.refusal
    assert "".join(chunk.choices[0].delta.refusal or "" for chunk in chunks) == choice.message.refusal
    said = {"role": "assistant", "content": choice.message.content, "refusal": choice.message.refusal}
    client.chat.completions.create(model="gpt-5", messages=[*HELLO, said, *HELLO])
    assert gemini.asked[-1].body["contents"][1]["parts"] == [{"text": "Well"}]
