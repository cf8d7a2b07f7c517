"""The real `google-genai` package against real gunicorn and a scripted Gemini."""

from __future__ import annotations

import asyncio
import base64

import orjson
import pytest
from google import genai
from google.genai import errors, types
from scripted_gemini import CUT, Reply, call_chunk, sse, text_chunk
from transcripts import NAMES, json_lines

SIGNATURE = base64.b64encode(b"\x12\xfb\xffsigned by Gemini").decode()
WEATHER = types.FunctionDeclaration(
    name="get_weather",
    description="Weather of a city",
    parameters_json_schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)
TOOLS = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[WEATHER])])
PRO = "gemini-3.1-pro-preview"


@pytest.fixture
def client(bridge):
    with genai.Client(
        api_key="client-key", http_options=types.HttpOptions(base_url=bridge.address, timeout=30_000)
    ) as sdk:
        yield sdk


def test_text_streams_in_the_chunks_gemini_sent(client, gemini):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo "), text_chunk("there.", "STOP")))
    chunks = list(client.models.generate_content_stream(model="gemini-3.1-pro-preview", contents="Hello"))
    assert [chunk.text for chunk in chunks] == ["Hel", "lo ", "there."]
    assert chunks[-1].candidates[0].finish_reason is types.FinishReason.STOP
    assert chunks[-1].usage_metadata.total_token_count == 7
    assert gemini.asked[-1].path == "/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse"


def test_a_whole_answer_is_one_text(client, gemini):
    gemini.will_say(
        sse({**text_chunk("Hel"), "modelVersion": "gemini-3.1-pro-preview"}, text_chunk("lo.", "STOP"))
    )
    answer = client.models.generate_content(model="gemini-3.1-pro-preview", contents="Hello")
    assert answer.text == "Hello."
    assert len(answer.candidates[0].content.parts) == 1
    assert answer.model_version == "gemini-3.1-pro-preview"


def test_the_asynchronous_client_streams_too(bridge, gemini):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo.", "STOP")))

    async def texts() -> list[str | None]:
        options = types.HttpOptions(base_url=bridge.address)
        async with genai.Client(api_key="client-key", http_options=options).aio as sdk:
            stream = await sdk.models.generate_content_stream(
                model="gemini-3.1-pro-preview", contents="Hello"
            )
            return [chunk.text async for chunk in stream]

    assert asyncio.run(texts()) == ["Hel", "lo."]


def test_a_config_reaches_gemini_as_it_was_written(client, gemini):
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        thinking_config=types.ThinkingConfig(thinking_level="LOW", include_thoughts=False),
        safety_settings=[types.SafetySetting(category="HARM_CATEGORY_HARASSMENT", threshold="OFF")],
        temperature=0.5,
        seed=7,
        response_mime_type="application/json",
        response_json_schema={"type": "object"},
    )
    client.models.generate_content(model=PRO, contents="Hello", config=config)
    sent = gemini.asked[-1].body
    assert sent["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert sent["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]
    assert sent["generationConfig"] == {
        "temperature": 0.5,
        "seed": 7,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": False},
    }


@pytest.mark.parametrize("call_id", ["c1", None])
def test_a_tool_loop_brings_the_signature_back(client, gemini, call_id):
    called = call_chunk("get_weather", {"city": "Paris", "days": 3}, call_id, SIGNATURE, "STOP")
    if call_id is None:
        del called["candidates"][0]["content"]["parts"][0]["functionCall"]["id"]
    gemini.will_say(sse(called), sse(text_chunk("Sunny.", "STOP")))
    chat = client.chats.create(model=PRO, config=TOOLS)
    (call,) = chat.send_message("How is Paris?").function_calls
    assert (call.id, call.name, call.args) == (call_id, "get_weather", {"city": "Paris", "days": 3})
    result = types.Part(
        function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": "sun"})
    )
    assert chat.send_message([result]).text == "Sunny."
    said, answered = gemini.asked[-1].body["contents"][1:]
    (part,) = said["parts"]
    assert base64.urlsafe_b64decode(part["thoughtSignature"]) == base64.b64decode(SIGNATURE)
    assert part["functionCall"].get("id") == call_id
    assert answered["parts"][0]["functionResponse"]["response"] == {"output": "sun"}


def test_the_sdk_calls_a_python_function_by_itself(client, gemini):
    gemini.will_say(
        sse(call_chunk("add", {"one": 2, "two": 3}, "c1", SIGNATURE, "STOP")),
        sse(text_chunk("Five.", "STOP")),
    )

    def add(one: int, two: int) -> int:
        """Adds."""
        return one + two

    config = types.GenerateContentConfig(tools=[add])
    assert client.models.generate_content(model=PRO, contents="Add.", config=config).text == "Five."
    results = gemini.asked[-1].body["contents"][-1]["parts"]
    assert results[0]["functionResponse"]["response"] == {"result": 5}


@pytest.mark.filterwarnings("ignore:.* is not a valid FinishReason")
@pytest.mark.parametrize("name", NAMES)
def test_the_sdks_accumulated_stream_equals_the_whole_answer(client, gemini, name):
    """Texts and calls of the stream equal those of the unstreamed answer."""
    gemini.will_say(sse(*json_lines(name)), sse(*json_lines(name)))
    try:
        whole = client.models.generate_content(model="gemini-3.1-pro-preview", contents="Hello")
    except errors.ServerError:
        with pytest.raises(errors.ServerError):
            list(client.models.generate_content_stream(model="gemini-3.1-pro-preview", contents="Hello"))
        return
    streamed = list(client.models.generate_content_stream(model="gemini-3.1-pro-preview", contents="Hello"))
    assert said_by(streamed) == said_by([whole])
    assert streamed[-1].usage_metadata == whole.usage_metadata
    assert last_reason(streamed) == last_reason([whole])


def said_by(answers: list[types.GenerateContentResponse]) -> tuple:
    parts = [
        part
        for answer in answers
        for candidate in answer.candidates or ()
        if not candidate.index
        for part in (candidate.content and candidate.content.parts) or ()
    ]
    texts = [
        "".join(part.text or "" for part in parts if bool(part.thought) is kind) for kind in (True, False)
    ]
    return texts, [part.function_call for part in parts if part.function_call]


def last_reason(answers: list[types.GenerateContentResponse]) -> object:
    reasons = [
        candidate.finish_reason
        for answer in answers
        for candidate in answer.candidates or ()
        if not candidate.index and candidate.finish_reason
    ]
    return reasons[-1:]


def envelope(status: int, google: str) -> Reply:
    body = {"error": {"code": status, "message": "Told by Gemini.", "status": google}}
    return Reply([orjson.dumps(body)], status=status)


@pytest.mark.parametrize(
    ("status", "google", "raised", "code"),
    [
        (400, "INVALID_ARGUMENT", errors.ClientError, 400),
        (404, "NOT_FOUND", errors.ClientError, 404),
        (429, "RESOURCE_EXHAUSTED", errors.ClientError, 429),
        (503, "UNAVAILABLE", errors.ServerError, 503),
        (500, "INTERNAL", errors.ServerError, 503),
        (403, "PERMISSION_DENIED", errors.ClientError, 400),
    ],
)
def test_errors_arrive_as_the_sdks_own_exceptions(client, gemini, status, google, raised, code):
    for ask in (client.models.generate_content, client.models.generate_content_stream):
        gemini.will_say(envelope(status, google))
        with pytest.raises(raised) as told:
            list(ask(model="gemini-3.1-pro-preview", contents="Hello"))
        assert told.value.code == code


@pytest.mark.parametrize("before", [[], [0.8]], ids=["at once", "after a silence"])
@pytest.mark.parametrize("ending", [[], [CUT], [b'{\n  "error": {"code": 503, "status": "UNAVAILABLE"}\n}']])
def test_a_broken_stream_raises_and_is_never_a_complete_answer(client, gemini, before, ending):
    gemini.will_say([*sse(text_chunk("Half an ans")), *before, *ending])
    with pytest.raises(errors.ServerError) as told:
        list(client.models.generate_content_stream(model="gemini-3.1-pro-preview", contents="Hello"))
    assert told.value.status == "UNAVAILABLE"


def test_a_silence_does_not_disturb_the_client(client, gemini):
    """Heartbeats come every 0.3 seconds and must not break the SDK's parser."""
    gemini.will_say([*sse(text_chunk("Let me see …")), 1.0, *sse(text_chunk(" Yes.", "STOP"))])
    chunks = list(client.models.generate_content_stream(model="gemini-3.1-pro-preview", contents="Hello"))
    assert [chunk.text for chunk in chunks] == ["Let me see …", " Yes."]


def test_a_silence_does_not_disturb_the_asynchronous_client(bridge, gemini):
    gemini.will_say([*sse(text_chunk("Let me see …")), 1.0, *sse(text_chunk(" Yes.", "STOP"))])

    async def texts() -> list[str | None]:
        options = types.HttpOptions(base_url=bridge.address)
        async with genai.Client(api_key="client-key", http_options=options).aio as sdk:
            stream = await sdk.models.generate_content_stream(
                model="gemini-3.1-pro-preview", contents="Hello"
            )
            return [chunk.text async for chunk in stream]

    assert asyncio.run(texts()) == ["Let me see …", " Yes."]


def test_tokens_are_counted(client, gemini):
    gemini.will_say(Reply([b'{"totalTokens": 31}']))
    assert client.models.count_tokens(model="gemini-3.1-pro-preview", contents="Hello").total_tokens == 31
    assert gemini.asked[-1].path == "/v1beta/models/gemini-3.1-pro-preview:countTokens"


def test_texts_become_vectors(client, gemini):
    gemini.will_say(Reply([b'{"embeddings": [{"values": [0.5, -0.5]}, {"values": [1, 0]}]}']))
    config = types.EmbedContentConfig(task_type="RETRIEVAL_QUERY", output_dimensionality=2)
    answer = client.models.embed_content(model="gemini-embedding-001", contents=["one", "two"], config=config)
    assert [each.values for each in answer.embeddings] == [[0.5, -0.5], [1, 0]]
    asked = gemini.asked[-1]
    assert asked.path == "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    assert asked.body["requests"][1] == {
        "model": "models/gemini-embedding-001",
        "content": {"parts": [{"text": "two"}], "role": "user"},
        "taskType": "RETRIEVAL_QUERY",
        "outputDimensionality": 2,
    }


def test_models_are_listed_page_by_page(client, gemini):
    names = [model.name for model in client.models.list(config={"page_size": 3})]
    assert {"models/gemini-3.1-pro-preview", "models/gpt-5"} <= set(names)
    assert len(names) == len(set(names))
    assert len(client.models.list(config={"page_size": 3}).page) == 3
    assert client.models.get(model="gemini-3.1-pro-preview").input_token_limit == 1048576
    with pytest.raises(errors.ClientError) as told:
        client.models.get(model="gemini-0-nothing")
    assert (told.value.code, told.value.status) == (404, "NOT_FOUND")


def test_the_clients_key_is_not_sent_on_and_ours_only_in_its_header(client, gemini, bridge, canary_key):
    client.models.generate_content(model="gemini-3.1-pro-preview", contents="Hello")
    asked = gemini.asked[-1]
    assert asked.headers["x-goog-api-key"] == canary_key
    assert "client-key" not in str(asked)
    assert canary_key not in asked.path
    assert "client-key" not in bridge.lines()
