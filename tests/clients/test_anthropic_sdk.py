"""The real `anthropic` package against real gunicorn and a scripted Gemini."""

from __future__ import annotations

import anthropic
import pytest
from anthropic import Anthropic
from scripted_gemini import CUT, Reply, call_chunk, sse, text_chunk
from transcripts import NAMES, json_lines

TOOLS = [
    {
        "name": "get_weather",
        "description": "Weather of a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
HELLO = [{"role": "user", "content": "Hello"}]
ASK = {"model": "claude-opus-4-8", "max_tokens": 1000, "messages": HELLO}


@pytest.fixture
def client(bridge):
    with Anthropic(base_url=bridge.address, api_key="client-key", max_retries=0) as sdk:
        yield sdk


def test_text_streams_in_the_chunks_gemini_sent(client, gemini):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo "), text_chunk("there.", "STOP")))
    with client.messages.stream(**ASK) as stream:
        assert list(stream.text_stream) == ["Hel", "lo ", "there."]
        final = stream.get_final_message()
    assert (final.model, final.stop_reason) == ("claude-opus-4-8", "end_turn")
    assert client.messages.create(**ASK)._request_id.startswith("req_")


def test_calls_and_their_results_make_a_round_trip_with_thinking(client, gemini):
    thought = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hm.", "thought": True}]}}]}
    gemini.will_say(
        sse(
            thought,
            call_chunk("get_weather", {"city": "Paris"}, "c1", signature="c2ln"),
            call_chunk("get_weather", {"city": "Rome"}, "c2", finish="STOP"),
        )
    )
    ask = {**ASK, "tools": TOOLS, "thinking": {"type": "enabled", "budget_tokens": 2048}}
    ask["model"] = "gemini-3.1-pro-preview"
    with client.messages.stream(**ask) as stream:
        message = stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "tool_use", "tool_use"]
    assert message.stop_reason == "tool_use"

    results = [
        {"type": "tool_result", "tool_use_id": each, "content": f"{each}: sunny"} for each in ("c2", "c1")
    ]
    said = {"role": "assistant", "content": [block.model_dump() for block in message.content]}
    client.messages.create(**{**ask, "messages": [*HELLO, said, {"role": "user", "content": results}]})
    _, model, user = gemini.asked[-1].body["contents"]
    assert model["parts"][0] == {"text": "Hm.", "thought": True}
    assert model["parts"][1]["thoughtSignature"] == "c2ln"
    assert "thoughtSignature" not in model["parts"][2]
    assert [part["functionResponse"]["response"] for part in user["parts"]] == [
        {"result": "c1: sunny"},
        {"result": "c2: sunny"},
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_sdks_accumulated_stream_equals_the_whole_message(client, gemini, name):
    gemini.will_say(sse(*json_lines(name)), sse(*json_lines(name)))
    ask = {**ASK, "thinking": {"type": "enabled", "budget_tokens": 2048}}
    try:
        whole = client.messages.create(**ask).to_dict()
    except anthropic.APIStatusError:
        with pytest.raises(anthropic.APIStatusError), client.messages.stream(**ask) as stream:
            stream.get_final_message()
        return
    with client.messages.stream(**ask) as stream:
        streamed = stream.get_final_message().to_dict()
    assert comparable(streamed) == comparable(whole)


def comparable(message):
    """Remove the answer's ids, and fields that are empty on one side and absent on the other."""
    if isinstance(message, list):
        return [comparable(item) for item in message]
    if not isinstance(message, dict):
        return message
    told = {key: value for key, value in message.items() if value is not None}
    return {key: comparable(value) for key, value in told.items() if key not in ("id", "tool_use_id")}


def test_cached_tokens_are_counted_beside_the_input(client, gemini):
    usage = {
        "promptTokenCount": 100,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 20,
        "cachedContentTokenCount": 64,
        "totalTokenCount": 127,
    }
    gemini.will_say(sse(text_chunk("Yes.", "STOP", **usage)))
    counted = client.messages.create(**ASK).usage
    assert (counted.input_tokens, counted.cache_read_input_tokens, counted.output_tokens) == (36, 64, 27)


def test_tokens_are_counted_with_instruction_and_tools(client, gemini):
    gemini.will_say(Reply([b'{"totalTokens": 321}']))
    counted = client.messages.count_tokens(model="claude-opus-4-8", messages=HELLO, system="Be.", tools=TOOLS)
    assert counted.input_tokens == 321
    asked = gemini.asked[-1]
    assert asked.path == "/v1beta/models/gemini-pro-latest:countTokens"
    request = asked.body["generateContentRequest"]
    assert request["model"] == "models/gemini-pro-latest"
    assert request["systemInstruction"]["parts"] == [{"text": "Be."}]
    assert request["tools"][0]["functionDeclarations"][0]["name"] == "get_weather"


@pytest.mark.parametrize(
    ("status", "google", "raised", "kind"),
    [
        (400, "INVALID_ARGUMENT", anthropic.BadRequestError, "invalid_request_error"),
        (404, "NOT_FOUND", anthropic.NotFoundError, "not_found_error"),
        (429, "RESOURCE_EXHAUSTED", anthropic.RateLimitError, "rate_limit_error"),
        (503, "UNAVAILABLE", anthropic.InternalServerError, "overloaded_error"),
        (403, "PERMISSION_DENIED", anthropic.InternalServerError, "api_error"),
    ],
)
def test_errors_arrive_as_the_sdks_own_exceptions(client, gemini, status, google, raised, kind):
    envelope = f'{{"error": {{"code": {status}, "message": "Told.", "status": "{google}"}}}}'.encode()
    for stream in (True, False):
        gemini.will_say(Reply([envelope], status=status))
        with pytest.raises(raised) as caught:
            client.messages.create(**ASK | {"model": "gemini-3.8-flash"}, stream=stream)
        assert caught.value.body["error"]["type"] == kind
        assert caught.value.body["request_id"] == caught.value.response.headers["request-id"]


def test_an_overload_is_a_529_and_a_wrong_upstream_key_is_not_retryable(client, gemini):
    gemini.will_say(
        Reply([b'{"error": {"status": "UNAVAILABLE"}}'], status=503),
        Reply([b'{"error": {"status": "PERMISSION_DENIED"}}'], status=403),
    )
    with pytest.raises(anthropic.APIStatusError) as overloaded:
        client.messages.create(**ASK)
    assert overloaded.value.status_code == 529
    with pytest.raises(anthropic.APIStatusError) as refused:
        client.messages.create(**ASK)
    assert refused.value.response.headers["x-should-retry"] == "false"


def test_a_context_overflow_has_the_message_that_makes_agents_compact(client, gemini):
    told = "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."
    gemini.will_say(
        Reply(
            [b'{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "%b"}}' % told.encode()], 400
        )
    )
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**ASK)
    assert caught.value.body["error"]["message"] == "prompt is too long: 1100000 tokens > 1048576 maximum"


@pytest.mark.parametrize("ending", [[], [CUT], [b'{\n  "error": {"code": 503, "status": "UNAVAILABLE"}\n}']])
def test_a_broken_stream_raises_and_is_never_a_complete_answer(client, gemini, ending):
    gemini.will_say([*sse(text_chunk("Half an ans")), *ending])
    with pytest.raises(anthropic.APIStatusError):
        list(client.messages.create(**ASK, stream=True))


def test_models_are_listed_in_anthropics_shape(client, gemini):
    listed = {model.id: model for model in client.models.list(limit=1000)}
    assert listed["claude-opus-4-8"].type == "model"
    assert client.models.retrieve("claude-haiku-4-5").id == "claude-haiku-4-5"


# --- server tools, client tools, citations ----------------------------------------------------------


def answer_chunk(*parts, **fields):
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP", **fields}]}


CITED = {
    "webSearchQueries": ["weather"],
    "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
    "groundingSupports": [
        {"segment": {"startIndex": 7, "endIndex": 13, "text": "Sunny."}, "groundingChunkIndices": [0]}
    ],
}


@pytest.mark.parametrize("stream", [True, False])
def test_citations_stand_in_the_text_that_they_support(client, gemini, stream):
    answer = [text_chunk("Café: "), answer_chunk({"text": "Sunny."}, groundingMetadata=CITED)]
    gemini.will_say(sse(*answer))
    ask = {
        **ASK,
        "tools": [{"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.b"]}],
    }
    if stream:
        with client.messages.stream(**ask) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**ask)
    text = message.content[0]
    assert text.text == "Café: Sunny."
    (citation,) = text.citations
    assert (citation.type, citation.url, citation.title) == (
        "web_search_result_location",
        "https://a.example",
        "A",
    )
    assert citation.cited_text == "Sunny."
    used = message.usage.server_tool_use
    assert (used.web_search_requests, used.web_fetch_requests) == (1, 0)
    assert gemini.asked[-1].body["tools"] == [{"googleSearch": {}}]


def test_a_citation_of_a_finished_text_is_counted(client, bridge, gemini):
    late = {"candidates": [{"finishReason": "STOP", "groundingMetadata": CITED}]}
    cited = [text_chunk("Café: Sunny."), call_chunk("get_weather", {}, "c1"), late]
    for said, expected in ((cited, 1), ([*cited[:1], late], None)):
        gemini.will_say(sse(*said))
        answer = client.messages.with_raw_response.create(**ASK, tools=TOOLS)
        texts = [block for block in answer.parse().content if block.type == "text"]
        assert sum(len(block.citations or ()) for block in texts) == (0 if expected else 1)
        (line,) = bridge.requests(request_id=answer.headers["request-id"])
        assert line.get("notes", {}).get("messages.citation_of_earlier_text") == expected


def test_web_fetch_reads_pages_with_geminis_url_context(client, gemini):
    pages = [
        {"retrievedUrl": "https://a.example", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"},
        {"retrievedUrl": "https://b.example", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_PAYWALL"},
    ]
    gemini.will_say(sse(answer_chunk({"text": "Read."}, urlContextMetadata={"urlMetadata": pages})))
    tools = [{"type": "web_fetch_20250910", "name": "web_fetch"}]
    message = client.messages.create(**ASK, tools=tools)
    assert gemini.asked[-1].body["tools"] == [{"urlContext": {}}]
    results = [block.content for block in message.content if block.type == "web_fetch_tool_result"]
    assert [each.type for each in results] == ["web_fetch_result", "web_fetch_tool_result_error"]
    assert (results[0].url, results[1].error_code) == ("https://a.example", "url_not_accessible")
    assert message.usage.server_tool_use.web_fetch_requests == 2


def test_executed_code_makes_a_round_trip(client, gemini):
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
        {"executableCode": {"id": "own", "language": "PYTHON", "code": "1/0"}},
        {"codeExecutionResult": {"id": "own", "outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
        {"executableCode": {"language": "PYTHON", "code": "while True: pass"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_DEADLINE_EXCEEDED", "output": ""}},
        {"text": "Done."},
    ]
    gemini.will_say(sse(answer_chunk(*parts)))
    ask = {**ASK, "tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}
    with client.messages.stream(**ask) as events:
        message = events.get_final_message()
    results = [block for block in message.content if block.type == "code_execution_tool_result"]
    calls = [block for block in message.content if block.type == "server_tool_use"]
    assert [block.tool_use_id for block in results] == [block.id for block in calls]
    assert [block.content.return_code for block in results] == [0, 1, 124]
    assert calls[0].input == {"code": "print(1)"}
    said = {"role": "assistant", "content": [block.to_dict() for block in message.content]}
    client.messages.create(**{**ask, "messages": [*HELLO, said, {"role": "user", "content": "Go on."}]})
    assert gemini.asked[-1].body["contents"][1]["parts"] == parts
    assert gemini.asked[-1].body["tools"] == [{"codeExecution": {}}]


CLIENT_TOOLS = [
    ("bash_20241022", "bash"),
    ("bash_20250124", "bash"),
    ("text_editor_20241022", "str_replace_editor"),
    ("text_editor_20250124", "str_replace_editor"),
    ("text_editor_20250429", "str_replace_based_edit_tool"),
    ("text_editor_20250728", "str_replace_based_edit_tool"),
    ("memory_20250818", "memory"),
    ("computer_20241022", "computer"),
    ("computer_20250124", "computer"),
    ("computer_20251124", "computer"),
]


@pytest.mark.parametrize(("kind", "name"), CLIENT_TOOLS)
def test_client_tools_are_declared_as_functions_and_called_by_their_name(client, gemini, kind, name):
    screen = {"display_width_px": 1024, "display_height_px": 768} if name == "computer" else {}
    gemini.will_say(sse(call_chunk(name, {"command": "view"}, "c1", finish="STOP")))
    message = client.beta.messages.create(**ASK, tools=[{"type": kind, "name": name, **screen}])
    (declared,) = gemini.asked[-1].body["tools"][0]["functionDeclarations"]
    assert declared["name"] == name
    schema = declared["parametersJsonSchema"]
    assert ("action" if name == "computer" else "command") in schema["properties"]
    assert [(block.type, block.name) for block in message.content] == [("tool_use", name)]


def test_the_computer_toolset_is_a_function_for_each_enabled_action(client, gemini):
    toolset = {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}}
    gemini.will_say(
        sse(call_chunk("computer_toolset__left_click", {"coordinate": [1, 2]}, "c1", finish="STOP"))
    )
    message = client.messages.create(**ASK, tools=[toolset])
    names = [each["name"] for each in gemini.asked[-1].body["tools"][0]["functionDeclarations"]]
    assert "computer_toolset__type" in names
    assert "computer_toolset__zoom" not in names
    (call,) = message.content
    assert (call.name, call.toolset_name, call.input) == ("left_click", "computer", {"coordinate": [1, 2]})
    said = {"role": "assistant", "content": [call.to_dict()]}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "clicked"}
    more = [*HELLO, said, {"role": "user", "content": [result]}]
    client.messages.create(**{**ASK, "tools": [toolset], "messages": more})
    past = gemini.asked[-1].body["contents"][1]["parts"][0]["functionCall"]
    assert past["name"] == "computer_toolset__left_click"


def test_tools_that_only_anthropic_can_run_are_dropped(client, gemini):
    tools = [*TOOLS, {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}]
    client.messages.create(**ASK, tools=tools)
    (declared,) = gemini.asked[-1].body["tools"]
    assert [each["name"] for each in declared["functionDeclarations"]] == ["get_weather"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_refusal_names_google_and_its_reason(client, gemini, stream):
    gemini.will_say(sse(text_chunk("Well", "PROHIBITED_CONTENT")))
    if stream:
        with client.messages.stream(**ASK) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**ASK)
    assert message.stop_reason == "refusal"
    assert "Google" in message.stop_details.explanation
    assert "PROHIBITED_CONTENT" in message.stop_details.explanation


def test_an_image_is_named_to_the_user_and_not_repeated_to_gemini(client, gemini):
    drawn = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    gemini.will_say(sse(answer_chunk({"text": "Here."}, drawn)))
    message = client.messages.create(**ASK)
    assert "image/png" in message.content[1].text
    said = {"role": "assistant", "content": [block.to_dict() for block in message.content]}
    client.messages.create(**{**ASK, "messages": [*HELLO, said, *HELLO]})
    assert gemini.asked[-1].body["contents"][1]["parts"] == [{"text": "Here."}]


def test_thinking_between_tools_is_off_and_its_signatures_come_back(client, gemini):
    asked = {**ASK, "thinking": {"type": "between_tools"}, "tools": TOOLS}
    gemini.will_say(sse(call_chunk("get_weather", {"city": "Bern"}, "c1", "c2ln", "STOP")))
    answer = client.messages.with_raw_response.create(**asked)
    message = answer.parse()
    assert gemini.asked[-1].body["generationConfig"]["thinkingConfig"]["includeThoughts"] is False
    assert "messages.between_tools" in answer.headers["x-bridge-losses"]
    assert [block.type for block in message.content] == ["thinking", "tool_use"]
    assert message.content[0].thinking == ""
    result = {"type": "tool_result", "tool_use_id": message.content[1].id, "content": "Wet."}
    said = {"role": "assistant", "content": [block.to_dict() for block in message.content]}
    client.messages.create(**{**asked, "messages": [*HELLO, said, {"role": "user", "content": [result]}]})
    (call,) = gemini.asked[-1].body["contents"][1]["parts"]
    assert call["thoughtSignature"] == "c2ln"
    types = client.models.retrieve("gemini-3.1-pro-preview").capabilities.thinking.types
    assert types.between_tools.supported
    strict = client.with_options(default_headers={"x-bridge-strict": "1"})
    with pytest.raises(anthropic.BadRequestError, match=r"messages\.between_tools"):
        strict.messages.create(**asked)


def test_models_have_pages_limits_and_capabilities(client, gemini):
    first = client.models.list(limit=1)
    (model,) = first.data
    assert first.has_more
    assert client.models.list(limit=1, after_id=model.id).data[0].id != model.id
    back = client.models.list(limit=1, before_id=client.models.list(limit=2).data[1].id)
    assert [each.id for each in back.data] == [model.id]
    shown = client.models.retrieve("gemini-3.1-pro-preview")
    assert (shown.max_input_tokens, shown.capabilities.effort.high.supported) == (1048576, True)
    for wrong in ({"limit": 0}, {"limit": 1001}, {"after_id": "nothing"}, {"before_id": "nothing"}):
        with pytest.raises(anthropic.BadRequestError):
            client.models.list(**wrong)
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("nothing")
