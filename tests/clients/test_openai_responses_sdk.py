"""The Responses API: the real `openai` package, and clients of other dialects, against real gunicorn."""

from __future__ import annotations

from typing import Any

import openai
import orjson
import pytest
import requests
from openai import OpenAI
from pydantic import BaseModel
from scripted_gemini import CUT, Reply, call_chunk, sse, text_chunk
from transcripts import NAMES, json_lines

MODEL = "gemini-3.1-pro-preview"
ENCRYPTED = ["reasoning.encrypted_content"]
HELLO = [{"role": "user", "content": "Hello"}]
TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "Weather of a city",
        "strict": False,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
    {"type": "custom", "name": "apply_patch", "description": "Changes files"},
]
OVERFLOW = {
    "error": {
        "code": 400,
        "message": "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
        "status": "INVALID_ARGUMENT",
    }
}


@pytest.fixture
def client(bridge):
    with OpenAI(base_url=f"{bridge.address}/v1", api_key="client-key", max_retries=0) as sdk:
        yield sdk


def thought_chunk(text: str, signature: str | None = None) -> dict[str, Any]:
    part: dict[str, Any] = {"text": text, "thought": True}
    if signature:
        part["thoughtSignature"] = signature
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}


def last_response(client: OpenAI, **options: Any) -> tuple[str, Any]:
    """Return the type and the response of a stream's last event."""
    *_, last = client.responses.create(**options, stream=True)
    return last.type, last.response


# --- the SDK -----------------------------------------------------------------------------------------


def test_text_streams_in_the_chunks_gemini_sent(client, gemini):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo "), text_chunk("there.", "STOP")))
    with client.responses.stream(model="gpt-5", input="Hello", instructions="Be brief.") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert deltas == ["Hel", "lo ", "there."]
    assert final.output_text == "Hello there."
    assert final.status == "completed"
    assert final.model == "gpt-5"
    assert final.instructions == "Be brief."
    assert gemini.asked[-1].body["systemInstruction"]["parts"] == [{"text": "Be brief."}]


def test_events_are_numbered_without_a_gap_and_each_names_its_item(client, gemini):
    gemini.will_say(sse(text_chunk("Look: "), call_chunk("get_weather", {}, "c1", finish="STOP")))
    events = list(client.responses.create(model="gpt-5", input="Hello", tools=TOOLS, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    added = {event.output_index: event.item.id for event in events if event.type.endswith("item.added")}
    named = {(event.output_index, event.item_id) for event in events if hasattr(event, "item_id")}
    assert len(added) == 2
    assert named == set(added.items())


def test_two_parallel_calls_stream_and_their_results_go_back_signed(client, gemini):
    gemini.will_say(
        sse(
            thought_chunk("Two cities."),
            call_chunk("get_weather", {"city": "Paris"}, "c1", signature="c2lnbmF0dXJl"),
            call_chunk("get_weather", {"city": "Rome"}, "c2", finish="STOP"),
        )
    )
    options: dict[str, Any] = {
        "model": MODEL,
        "tools": TOOLS,
        "include": ENCRYPTED,
        "reasoning": {"summary": "auto"},
        "store": False,
    }
    with client.responses.stream(input=HELLO, **options) as stream:
        done = [event for event in stream if event.type == "response.function_call_arguments.done"]
        final = stream.get_final_response()
    assert [event.arguments for event in done] == ['{"city":"Paris"}', '{"city":"Rome"}']
    assert [item.type for item in final.output] == ["reasoning", "function_call", "function_call"]
    assert final.output[0].summary[0].text == "Two cities."
    assert [(call.call_id, call.status) for call in final.output[1:]] == [
        ("c1", "completed"),
        ("c2", "completed"),
    ]

    # As from another bridge: only the items can show which call was signed.
    renamed = [item.model_copy(update={"call_id": f"x{item.call_id}"}) for item in final.output[1:]]
    results = [
        {"type": "function_call_output", "call_id": each, "output": f"{each}: sunny"}
        for each in ("xc2", "xc1")
    ]
    client.responses.create(input=[*HELLO, final.output[0], *renamed, *results], **options)
    _, said, answered = gemini.asked[-1].body["contents"]
    thought, *calls = said["parts"]
    assert thought == {"text": "Two cities.", "thought": True}
    assert [part["functionCall"]["args"] for part in calls] == [{"city": "Paris"}, {"city": "Rome"}]
    assert calls[0]["thoughtSignature"] == "c2lnbmF0dXJl"
    assert "thoughtSignature" not in calls[1]
    assert [part["functionResponse"]["response"] for part in answered["parts"]] == [
        {"result": "xc1: sunny"},
        {"result": "xc2: sunny"},
    ]


def test_a_signed_thought_comes_back_with_its_own_signature(client, gemini):
    gemini.will_say(sse(thought_chunk("Hm.", "b3du"), text_chunk("Yes.", "STOP")))
    options: dict[str, Any] = {"model": MODEL, "include": ENCRYPTED, "reasoning": {"summary": "auto"}}
    first = client.responses.create(input=HELLO, **options)
    client.responses.create(input=[*HELLO, *first.output, {"role": "user", "content": "On"}], **options)
    said = gemini.asked[-1].body["contents"][1]["parts"]
    assert said == [{"text": "Hm.", "thought": True, "thoughtSignature": "b3du"}, {"text": "Yes."}]


def test_thoughts_are_sent_only_if_a_summary_was_requested(client, gemini):
    gemini.will_say(sse(thought_chunk("Secret."), text_chunk("Yes.", "STOP")))
    answer = client.responses.create(model=MODEL, input="Hello")
    assert [item.type for item in answer.output] == ["message"]
    thinking = gemini.asked[-1].body["generationConfig"]["thinkingConfig"]
    assert thinking == {"includeThoughts": False}


def test_a_freeform_tool_is_called_with_text_and_its_result_goes_back(client, gemini):
    gemini.will_say(sse(call_chunk("apply_patch", {"input": "+ a line"}, "p1", "c2ln", finish="STOP")))
    with client.responses.stream(model=MODEL, input=HELLO, tools=TOOLS) as stream:
        deltas = [event.delta for event in stream if event.type == "response.custom_tool_call_input.delta"]
        (call,) = stream.get_final_response().output
    assert deltas == ["+ a line"]
    assert (call.type, call.name, call.input) == ("custom_tool_call", "apply_patch", "+ a line")
    result = {"type": "custom_tool_call_output", "call_id": "p1", "output": "Done"}
    client.responses.create(model=MODEL, input=[*HELLO, call, result], tools=TOOLS)
    _, said, answered = gemini.asked[-1].body["contents"]
    assert said["parts"][0]["functionCall"]["args"] == {"input": "+ a line"}
    assert answered["parts"][0]["functionResponse"]["response"] == {"status": "success", "summary": "Done"}


@pytest.mark.parametrize("name", NAMES)
def test_the_last_event_of_a_stream_holds_the_whole_answer(client, gemini, name):
    """The stream ends with the body of the unstreamed answer, and the SDK accumulates the same."""
    gemini.will_say(*[sse(*json_lines(name)) for _ in range(3)])
    options: dict[str, Any] = {
        "model": MODEL,
        "input": "Hello",
        "reasoning": {"summary": "auto"},
        "include": ENCRYPTED,
    }
    try:
        whole = client.responses.create(**options)
    except openai.InternalServerError as refused:
        assert_the_stream_fails_too(client, options, refused.body["code"])
        return
    kind, streamed = last_response(client, **options)
    assert comparable(streamed.to_dict()) == comparable(whole.to_dict())
    assert kind == f"response.{whole.status}"
    if whole.status == "completed":
        with client.responses.stream(**options) as stream:
            assert comparable(stream.get_final_response().to_dict()) == comparable(whole.to_dict())


def assert_the_stream_fails_too(client: OpenAI, options: dict[str, Any], code: str) -> None:
    try:
        kind, streamed = last_response(client, **options)
        told_code = streamed.error.model_extra["bridge_code"]
    except openai.InternalServerError as refused:  # before the first event
        kind, told_code = "response.failed", refused.body["code"]
    assert (kind, told_code) == ("response.failed", code)


def comparable(answer: Any) -> Any:
    """Remove what always differs: the answer's ids, and the SDK's own marks."""
    made = ("id", "container_id", "created_at", "completed_at", "parsed", "parsed_arguments")
    if isinstance(answer, list):
        return [comparable(item) for item in answer]
    if isinstance(answer, str) and answer.startswith("call_gb"):
        return "call_gb"
    if not isinstance(answer, dict):
        return answer
    return {key: comparable(value) for key, value in answer.items() if key not in made and value is not None}


def test_usage_counts_cached_and_reasoning_tokens(client, gemini):
    usage = {
        "promptTokenCount": 100,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 20,
        "cachedContentTokenCount": 64,
        "totalTokenCount": 127,
    }
    gemini.will_say(sse(text_chunk("Yes.", "STOP", **usage)))
    counted = client.responses.create(model="gpt-5", input="Hello").usage
    assert (counted.input_tokens, counted.output_tokens, counted.total_tokens) == (100, 27, 127)
    assert counted.input_tokens_details.cached_tokens == 64
    assert counted.output_tokens_details.reasoning_tokens == 20


class Place(BaseModel):
    city: str
    people: int


def test_a_structured_answer_is_asked_for_and_parsed(client, gemini):
    gemini.will_say(sse(text_chunk('{"city": "Oslo", '), text_chunk('"people": 7}', "STOP")))
    answer = client.responses.parse(model="gpt-5", input="Where?", text_format=Place)
    assert answer.output_parsed == Place(city="Oslo", people=7)
    assert answer.text.format.name == "Place"
    generation = gemini.asked[-1].body["generationConfig"]
    assert generation["responseMimeType"] == "application/json"
    assert generation["responseJsonSchema"]["required"] == ["city", "people"]


def test_an_answer_truncated_by_the_token_limit_is_incomplete(client, gemini):
    gemini.will_say(sse(text_chunk("Once upon", "MAX_TOKENS")))
    kind, answer = last_response(client, model="gpt-5", input="Hello", max_output_tokens=2)
    assert (kind, answer.status) == ("response.incomplete", "incomplete")
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.output_text == "Once upon"
    assert answer.max_output_tokens == 2


def test_a_google_search_is_reported_as_a_web_search_call(client, gemini):
    found = text_chunk("Blue.", "STOP")
    found["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["who won"]}
    gemini.will_say(sse(found))
    answer = client.responses.create(model="gpt-5", input="Who won?", tools=[{"type": "web_search"}])
    searches = [item for item in answer.output if item.type == "web_search_call"]
    assert [(search.status, search.action.query) for search in searches] == [("completed", "who won")]
    assert answer.output_text == "Blue."
    assert gemini.asked[-1].body["tools"] == [{"googleSearch": {}}]


@pytest.mark.parametrize(
    ("status", "google", "raised", "code"),
    [
        (400, "INVALID_ARGUMENT", openai.BadRequestError, "upstream_refused"),
        (404, "NOT_FOUND", openai.NotFoundError, "model_not_found"),
        (429, "RESOURCE_EXHAUSTED", openai.RateLimitError, "rate_limit_exceeded"),
        (503, "UNAVAILABLE", openai.InternalServerError, "server_is_overloaded"),
        (403, "PERMISSION_DENIED", openai.InternalServerError, "upstream_misconfigured"),
    ],
)
def test_errors_arrive_as_the_sdks_own_exceptions(client, gemini, status, google, raised, code):
    envelope = {"error": {"code": status, "message": "Told by Gemini.", "status": google}}
    for stream in (True, False):
        gemini.will_say(Reply([orjson.dumps(envelope)], status=status))
        with pytest.raises(raised) as refused:
            client.responses.create(model=MODEL, input="Hello", stream=stream)
        assert refused.value.code == code
        assert refused.value.request_id


def test_a_context_overflow_has_its_own_error_code(client, gemini):
    gemini.will_say(Reply([orjson.dumps(OVERFLOW)], status=400))
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="gpt-5", input="Hello", stream=True)
    assert refused.value.code == "context_length_exceeded"


def test_a_bad_request_names_its_field(client, gemini):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="gpt-5", input=[{"role": "narrator", "content": "Once"}])
    assert refused.value.param == "input[0].role"
    assert gemini.asked == []


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param([], id="no finish reason"),
        pytest.param([CUT], id="connection lost"),
        pytest.param([b'{\n  "error": {"code": 503, "status": "UNAVAILABLE"}\n}'], id="error"),
    ],
)
def test_a_broken_stream_fails_and_is_never_a_complete_answer(client, gemini, ending):
    gemini.will_say(*[[*sse(text_chunk("Half an ans")), *ending] for _ in range(2)])
    events = list(client.responses.create(model="gpt-5", input="Hello", stream=True))
    assert [event.type for event in events if event.type.startswith("response.completed")] == []
    assert events[-1].type == "response.failed"
    assert events[-1].response.status == "failed"
    assert events[-1].response.error.message
    with (
        pytest.raises(RuntimeError, match=r"response\.completed"),
        client.responses.stream(model="gpt-5", input="Hello") as stream,
    ):
        stream.get_final_response()


# --- dialects ----------------------------------------------------------------------------------------


def events_of(bridge: Any, headers: dict[str, str] | None = None, **body: Any) -> list[dict[str, Any]]:
    """Return the events as a client without an SDK gets them."""
    answer = requests.post(
        f"{bridge.address}/v1/responses",
        json={"model": "gpt-5", "input": "Hello", "stream": True, **body},
        headers=headers,
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("\n\n")
    events = []
    for block in answer.text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        events.append(orjson.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


CODEX = {"originator": "codex_cli_rs"}


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_the_sdk_gets_events_like_openais(client, gemini):
    gemini.will_say(sse(text_chunk("Hi.", "STOP")), sse(call_chunk("get_weather", {}, "c1", finish="STOP")))
    kinds_told = [event.type for event in client.responses.create(model=MODEL, input="x", stream=True)]
    assert kinds_told == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    kind, answer = last_response(client, model=MODEL, input="x", tools=TOOLS)
    assert (kind, answer.status, answer.output[0].status) == ("response.completed", "completed", "completed")
    assert [tool.name for tool in answer.tools] == ["get_weather", "apply_patch"]


def test_a_bare_client_gets_text_in_the_bridge_dialect(bridge, gemini):
    gemini.will_say(sse(text_chunk("Good "), text_chunk("day.", "STOP")))
    events = events_of(bridge)
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "done",
        "completed",
    ]
    assert (events[6]["text"], events[6]["output_text"]) == ("Good day.", "Good day.")
    done, completed = events[-2]["response"], events[-1]["response"]
    assert done == completed
    assert done["status"] == "completed"
    assert done["output"][0]["content"][0]["text"] == "Good day."
    assert done["usage"]["total_tokens"] == 7


def test_a_bare_client_gets_a_call_that_requires_action(bridge, gemini):
    large = {"city": "x" * 100_000}
    gemini.will_say(sse(call_chunk("get_weather", large, "c1", finish="STOP")))
    events = events_of(bridge, tools=TOOLS)
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "done",
        "completed",
    ]
    added, delta, done, item = events[2:6]
    assert (added["item"]["name"], added["item"]["call_id"]) == ("get_weather", "c1")
    assert orjson.loads(delta["delta"]) == large
    assert done["arguments"] == item["item"]["arguments"] == delta["delta"]
    assert item["item"]["status"] == "requires_action"
    assert [event["response"]["status"] for event in events[-2:]] == ["requires_action"] * 2
    assert events[-1]["response"]["output"] == [item["item"]]


def test_a_bare_client_gets_a_failure_in_three_events(bridge, gemini):
    gemini.will_say([*sse(text_chunk("Half an ans")), CUT])
    events = events_of(bridge)
    assert kinds(events)[-3:] == ["failed", "done", "completed"]
    assert {event["response"]["status"] for event in events[-3:]} == {"failed"}
    assert events[-3]["response"]["error"]["message"]


def test_a_bare_client_gets_heartbeat_events(bridge, gemini):
    gemini.will_say([*sse(text_chunk("Slow")), 0.8, *sse(text_chunk("ly.", "STOP"))])
    answer = requests.post(
        f"{bridge.address}/v1/responses",
        json={"model": "gpt-5", "input": "Hello", "stream": True},
        timeout=30,
    )
    assert 'data: {"type":"keepalive"}\n\n' in answer.text
    assert answer.text.rstrip().splitlines()[-2] == "event: response.completed"


def test_codex_gets_only_events_that_it_supports(bridge, gemini):
    gemini.will_say(sse(text_chunk("Look: "), call_chunk("get_weather", {}, "c1", finish="STOP")))
    events = events_of(bridge, CODEX, tools=TOOLS)
    assert kinds(events)[-1] == "completed"
    assert "done" not in kinds(events)
    assert events[-1]["response"]["status"] == "completed"
    assert events[-1]["response"]["tools"] == []
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [(item["type"], item["status"]) for item in items] == [
        ("message", "completed"),
        ("function_call", "completed"),
    ]


def test_codex_gets_a_context_overflow_in_the_stream(bridge, gemini):
    gemini.will_say(Reply([orjson.dumps(OVERFLOW)], status=400))
    events = events_of(bridge, CODEX)
    assert kinds(events) == ["created", "failed"]
    response = events[-1]["response"]
    assert (response["status"], response["error"]["code"]) == ("failed", "context_length_exceeded")


def test_codex_does_not_retry_a_filtered_answer(bridge, gemini):
    gemini.will_say(sse(text_chunk("I will n", "SAFETY")))
    events = events_of(bridge, {"user-agent": "codex_exec/0.166.0 (Linux)"})
    assert kinds(events)[-1] == "failed"
    assert events[-1]["response"]["error"]["code"] == "invalid_prompt"


def test_codex_gets_a_rate_limit_status_with_integer_seconds(bridge, gemini):
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.2s"}
    envelope = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": [wait]}}
    gemini.will_say(Reply([orjson.dumps(envelope)], status=429))
    answer = requests.post(
        f"{bridge.address}/v1/responses",
        json={"model": "gpt-5", "input": "Hello", "stream": True},
        headers=CODEX,
        timeout=30,
    )
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")


def test_a_namespaced_tool_is_called_by_namespace_and_name(bridge, gemini):
    space = {"type": "namespace", "name": "mcp__calc", "description": "Sums", "tools": [TOOLS[0]]}
    gemini.will_say(sse(call_chunk("mcp__calc__get_weather", {"city": "Oslo"}, "c1", finish="STOP")))
    events = events_of(bridge, CODEX, tools=[space])
    (item,) = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert (item["name"], item["namespace"]) == ("get_weather", "mcp__calc")
