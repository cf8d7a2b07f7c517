"""Google's older `google-generativeai` package, over REST, against real gunicorn and a scripted Gemini.

It drops fields newer than its protos, including signatures, and reads a stream as one JSON array.
"""

from __future__ import annotations

import gc
import warnings

import google.generativeai as genai
import orjson
import pytest
from google.api_core import exceptions
from google.generativeai import protos
from scripted_gemini import CUT, Reply, call_chunk, sse, text_chunk

SIGNATURE = "c2lnbmVkLWJ5LWdlbWluaQ=="
ONCE = {"retry": None, "timeout": 30}  #: otherwise the package retries failures


# The package never closes its connections, not even broken ones.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module", autouse=True)
def _configured(bridge):
    genai.configure(api_key="client-key", transport="rest", client_options={"api_endpoint": bridge.address})
    yield
    genai.configure(transport="rest")  # releases its connections
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()


@pytest.fixture
def model():
    return genai.GenerativeModel("gemini-3.1-pro-preview")


def test_text_streams_in_the_chunks_gemini_sent(model, gemini):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk('lo "{[', None), text_chunk("\\there.", "STOP")))
    answer = model.generate_content("Hello", stream=True, request_options=ONCE)
    assert [chunk.text for chunk in answer] == ["Hel", 'lo "{[', "\\there."]
    assert answer.candidates[0].finish_reason == protos.Candidate.FinishReason.STOP
    assert answer.usage_metadata.total_token_count == 7


def test_a_whole_answer_is_one_text(model, gemini):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo.", "STOP")))
    answer = model.generate_content("Hello", request_options=ONCE)
    assert answer.text == "Hello."
    assert len(answer.candidates[0].content.parts) == 1


def test_a_tool_loop_is_signed_for_a_client_that_drops_signatures(gemini):
    def get_weather(city: str) -> str:
        """Weather of a city."""
        return f"sun in {city}"

    gemini.will_say(
        sse(call_chunk("get_weather", {"city": "Paris"}, "c1", SIGNATURE, "STOP")),
        sse(text_chunk("Sunny.", "STOP")),
    )
    model = genai.GenerativeModel("gemini-3.1-pro-preview", tools=[get_weather])
    chat = model.start_chat(enable_automatic_function_calling=True)
    assert chat.send_message("How is Paris?", request_options=ONCE).text == "Sunny."
    declared, _ = (asked.body["tools"][0]["functionDeclarations"] for asked in gemini.asked)
    assert declared[0]["name"] == "get_weather"
    said, answered = gemini.asked[-1].body["contents"][1:]
    assert said["parts"][0]["thoughtSignature"] == SIGNATURE
    assert answered["parts"][0]["functionResponse"]["response"] == {"result": "sun in Paris"}


def test_numeric_enum_values_are_accepted(gemini):
    model = genai.GenerativeModel(
        "gemini-3.1-pro-preview",
        tools=[protos.Tool(function_declarations=[protos.FunctionDeclaration(name="ping")])],
        tool_config={"function_calling_config": {"mode": "ANY", "allowed_function_names": ["ping"]}},
        system_instruction="Be brief.",
        generation_config={"max_output_tokens": 99_999_999, "stop_sequences": ["END"]},
    )
    model.generate_content("Hello", request_options=ONCE)
    sent = gemini.asked[-1].body
    assert sent["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": ["ping"]}
    assert sent["generationConfig"] == {"maxOutputTokens": 65536, "stopSequences": ["END"]}
    assert sent["systemInstruction"]["parts"] == [{"text": "Be brief."}]


def envelope(status: int, google: str) -> Reply:
    body = {"error": {"code": status, "message": "Told by Gemini.", "status": google}}
    return Reply([orjson.dumps(body)], status=status)


@pytest.mark.parametrize(
    ("status", "google", "raised"),
    [
        (400, "INVALID_ARGUMENT", exceptions.BadRequest),
        (404, "NOT_FOUND", exceptions.NotFound),
        (429, "RESOURCE_EXHAUSTED", exceptions.TooManyRequests),
        (503, "UNAVAILABLE", exceptions.ServiceUnavailable),
        (403, "PERMISSION_DENIED", exceptions.BadRequest),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_arrive_as_the_sdks_own_exceptions(model, gemini, status, google, raised, stream):
    gemini.will_say(envelope(status, google))
    with pytest.raises(raised):
        list(model.generate_content("Hello", stream=stream, request_options=ONCE))


@pytest.mark.parametrize("before", [[], [0.8]], ids=["at once", "after a silence"])
@pytest.mark.parametrize("ending", [[], [CUT], [b'{\n  "error": {"code": 503, "status": "UNAVAILABLE"}\n}']])
def test_a_broken_stream_raises_and_is_never_a_complete_answer(model, gemini, before, ending):
    gemini.will_say([*sse(text_chunk("Half an ans")), *before, *ending])
    with pytest.raises(ValueError, match="array of JSON objects"):
        model.generate_content("Hello", stream=True, request_options=ONCE).resolve()


def test_a_silence_does_not_disturb_the_client(model, gemini):
    gemini.will_say([*sse(text_chunk("Let me see …")), 1.0, *sse(text_chunk(" Yes.", "STOP"))])
    answer = model.generate_content("Hello", stream=True, request_options=ONCE)
    assert [chunk.text for chunk in answer] == ["Let me see …", " Yes."]


def test_tokens_are_counted(model, gemini):
    gemini.will_say(Reply([b'{"totalTokens": 31}']))
    assert model.count_tokens("Hello").total_tokens == 31
    assert gemini.asked[-1].body["generateContentRequest"]["contents"][0]["parts"] == [{"text": "Hello"}]


def test_texts_become_vectors(gemini):
    gemini.will_say(
        Reply([b'{"embedding": {"values": [0.5, -0.5]}}']),
        Reply([b'{"embeddings": [{"values": [0.5]}, {"values": [1]}]}']),
    )
    assert genai.embed_content("models/gemini-embedding-001", "one")["embedding"] == [0.5, -0.5]
    assert genai.embed_content("models/gemini-embedding-001", ["one", "two"])["embedding"] == [[0.5], [1.0]]
    single, several = gemini.asked[-2:]
    assert single.path == "/v1beta/models/gemini-embedding-001:embedContent"
    assert single.body["model"] == "models/gemini-embedding-001"
    assert several.path.endswith(":batchEmbedContents")


def test_models_are_listed(gemini):
    names = [model.name for model in genai.list_models(page_size=4)]
    assert {"models/gemini-3.1-pro-preview", "models/gpt-5"} <= set(names)
    assert genai.get_model("models/gemini-3.1-pro-preview").input_token_limit == 1048576


def test_the_clients_key_is_not_sent_on(model, gemini, bridge):
    model.generate_content("Hello", request_options=ONCE)
    assert "client-key" not in str(gemini.asked[-1])
    assert "client-key" not in bridge.lines()
