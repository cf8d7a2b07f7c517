"""`client.interactions` of the real `google-genai` package against real gunicorn and a scripted Gemini."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
import requests
from google import genai
from google.genai import types
from google.genai._interactions import BadRequestError, NotFoundError, RateLimitError
from scripted_gemini import CUT, Reply, call_chunk, sse, text_chunk
from waiting import eventually

SIGNATURE = base64.b64encode(b"\x12\xfb\xffsigned by Gemini").decode()
PRO = "gemini-3.1-pro-preview"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def sdk(bridge, key: str = "alice", **options) -> genai.Client:
    retry = types.HttpRetryOptions(attempts=1)
    http = types.HttpOptions(base_url=bridge.address, timeout=30_000, retry_options=retry, **options)
    return genai.Client(api_key=key, http_options=http)


@pytest.fixture
def client(bridge, gemini):
    with sdk(bridge) as made:
        yield made


@pytest.fixture
def other_client(bridge):
    with sdk(bridge, "mallory") as made:
        yield made


def parts_chunk(*parts, finish: str | None = None):
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate]}


def two_calls():
    return sse(
        call_chunk("get_weather", {"city": "Paris"}, "c1", SIGNATURE),
        call_chunk("get_weather", {"city": "Rome"}, "c2", None, "STOP"),
    )


def contents(gemini):
    return gemini.asked[-1].body["contents"]


# --- one answer --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_text(bridge, gemini, version):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo there.", "STOP")))
    with sdk(bridge, api_version=version) as client:
        answer = client.interactions.create(model=PRO, input="Hello", system_instruction="Be brief.")
    assert (answer.output_text, answer.status, answer.model) == ("Hello there.", "completed", PRO)
    assert (answer.usage.total_input_tokens, answer.usage.total_output_tokens) == (5, 2)
    assert answer.created.endswith("Z")
    assert contents(gemini) == [{"role": "user", "parts": [{"text": "Hello"}]}]
    assert gemini.asked[-1].body["systemInstruction"]["parts"] == [{"text": "Be brief."}]


def test_a_stream_has_each_piece_and_its_ending(client, gemini):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo."), text_chunk("", "STOP")))
    events = list(client.interactions.create(model=PRO, input="Hello", stream=True))
    assert [event.event_type for event in events] == [
        "interaction.created",
        "interaction.status_update",
        "step.start",
        "step.delta",
        "step.delta",
        "step.stop",
        "interaction.completed",
    ]
    assert [event.event_id for event in events] == [str(number) for number in range(1, 8)]
    assert [event.delta.text for event in events if event.event_type == "step.delta"] == ["Hel", "lo."]
    assert (events[0].interaction.status, events[-1].interaction.status) == ("in_progress", "completed")
    assert events[-1].interaction.usage.total_tokens == 7


def test_the_asynchronous_client_streams_too(bridge, gemini):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo.", "STOP")))

    async def texts() -> list[str]:
        async with sdk(bridge).aio as client:
            stream = await client.interactions.create(model=PRO, input="Hello", stream=True)
            return [event.delta.text async for event in stream if event.event_type == "step.delta"]

    assert asyncio.run(texts()) == ["Hel", "lo."]


def test_heartbeats_do_not_disturb_the_client(client, gemini):
    gemini.will_say([*sse(text_chunk("Slow")), 1.0, *sse(text_chunk("ly.", "STOP"))])
    events = list(client.interactions.create(model=PRO, input="Hello", stream=True))
    assert [event.delta.text for event in events if event.event_type == "step.delta"] == ["Slow", "ly."]


def test_thoughts_are_summarised_on_request(client, gemini):
    gemini.will_say(
        sse(
            parts_chunk({"text": "Hm. ", "thought": True}),
            parts_chunk({"text": "Yes.", "thought": True, "thoughtSignature": SIGNATURE}),
            parts_chunk({"text": "Done."}, finish="STOP"),
        )
    )
    config = {"thinking_level": "low", "thinking_summaries": "auto"}
    answer = client.interactions.create(model=PRO, input="Think.", generation_config=config)
    thought, output = answer.steps
    assert (thought.type, thought.summary[0].text) == ("thought", "Hm. Yes.")
    assert (output.type, answer.output_text) == ("model_output", "Done.")
    thinking = gemini.asked[-1].body["generationConfig"]["thinkingConfig"]
    assert thinking == {"includeThoughts": True, "thinkingLevel": "LOW"}


def test_a_config_reaches_gemini(client, gemini):
    client.interactions.create(
        model=PRO,
        input=[
            {"type": "text", "text": "Hello"},
            {"type": "image", "mime_type": "image/png", "data": "aGk="},
        ],
        generation_config={"max_output_tokens": 4000, "seed": 7, "stop_sequences": ["END"]},
        response_format={"type": "text", "mime_type": "application/json", "schema": {"type": "object"}},
        tools=[{"type": "google_search"}],
    )
    sent = gemini.asked[-1].body
    assert sent["contents"][0]["parts"][1] == {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    generation = sent["generationConfig"]
    assert (generation["maxOutputTokens"], generation["seed"], generation["stopSequences"]) == (
        4000,
        7,
        ["END"],
    )
    assert generation["responseJsonSchema"] == {"type": "object"}
    assert sent["tools"] == [{"googleSearch": {}}]


def test_a_google_search_is_reported_with_its_sources(client, gemini):
    grounding = {
        "webSearchQueries": ["weather"],
        "searchEntryPoint": {"renderedContent": "<div>"},
        "groundingChunks": [{"web": {"uri": "https://example.org/w", "title": "Weather"}}],
        "groundingSupports": [{"segment": {"endIndex": 9}, "groundingChunkIndices": [0]}],
    }
    chunk = text_chunk("It rains.", "STOP")
    chunk["candidates"][0]["groundingMetadata"] = grounding
    gemini.will_say(sse(chunk))
    answer = client.interactions.create(model=PRO, input="Weather?", tools=[{"type": "google_search"}])
    output, search, found = answer.steps
    assert answer.output_text == "It rains."
    (citation,) = output.content[0].annotations
    assert (citation.url, citation.start_index, citation.end_index) == ("https://example.org/w", 0, 9)
    assert search.arguments.queries == ["weather"]
    assert (found.call_id, found.result[0].search_suggestions) == (search.id, "<div>")


def test_an_image_is_an_output(client, gemini):
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": SIGNATURE}
    gemini.will_say(sse(parts_chunk(image, finish="STOP")))
    first = client.interactions.create(model=PRO, input="Draw.")
    assert (first.output_image.mime_type, first.output_image.data) == ("image/png", "aGk=")
    client.interactions.create(model=PRO, input="Again.", previous_interaction_id=first.id)
    assert contents(gemini)[1]["parts"] == [image]


# --- tools and returned signatures -------------------------------------------------------------------


def results(steps):
    return [
        {"type": "function_result", "name": step.name, "call_id": step.id, "result": f"sun {number}"}
        for number, step in enumerate(step for step in steps if step.type == "function_call")
    ]


def assert_both_calls_and_results(sent, *ids):
    _, model, user = sent
    assert [part["functionCall"]["args"]["city"] for part in model["parts"]] == ["Paris", "Rome"]
    assert [part["functionCall"]["id"] for part in model["parts"]] == list(ids)
    assert [part.get("thoughtSignature") for part in model["parts"]] == [SIGNATURE, None]
    answered = [part["functionResponse"]["response"] for part in user["parts"]]
    assert answered == [{"result": "sun 0"}, {"result": "sun 1"}]


def test_two_calls_at_once_and_the_results_alone(client, gemini):
    gemini.will_say(two_calls(), sse(text_chunk("Sunny.", "STOP")))
    first = client.interactions.create(model=PRO, input="Paris and Rome?", tools=[WEATHER])
    assert first.status == "requires_action"
    assert [step.type for step in first.steps] == ["thought", "function_call", "function_call"]
    second = client.interactions.create(
        model=PRO, input=results(first.steps), tools=[WEATHER], previous_interaction_id=first.id
    )
    assert (second.output_text, second.previous_interaction_id) == ("Sunny.", first.id)
    assert_both_calls_and_results(contents(gemini), "c1", "c2")


def test_the_signature_comes_back_from_the_steps_that_a_client_sends(client, gemini):
    gemini.will_say(two_calls(), sse(text_chunk("Sunny.", "STOP")))
    question = {"type": "user_input", "content": [{"type": "text", "text": "Paris and Rome?"}]}
    first = client.interactions.create(model=PRO, input=[question], tools=[WEATHER], store=False)
    for step in first.steps[1:]:
        step.id = f"elsewhere-{step.id}"  # so that only the step can carry the signature
    history = [question, *(step.model_dump(exclude_none=True) for step in first.steps)]
    history += results(first.steps)
    client.interactions.create(model=PRO, input=history, tools=[WEATHER], store=False)
    assert_both_calls_and_results(contents(gemini), "elsewhere-c1", "elsewhere-c2")


def test_a_call_may_be_resent_with_its_result_after_a_stored_answer(client, gemini):
    gemini.will_say(two_calls())
    first = client.interactions.create(model=PRO, input="Paris and Rome?", tools=[WEATHER])
    again = [step.model_dump(exclude_none=True) for step in first.steps if step.type == "function_call"]
    client.interactions.create(
        model=PRO, input=[*again, *results(first.steps)], tools=[WEATHER], previous_interaction_id=first.id
    )
    assert_both_calls_and_results(contents(gemini), "c1", "c2")


def test_streamed_calls_can_be_accumulated(client, gemini):
    gemini.will_say(two_calls())
    steps, arguments = {}, {}
    for event in client.interactions.create(model=PRO, input="Go.", tools=[WEATHER], stream=True):
        if event.event_type == "step.start":
            steps[event.index] = event.step
        elif event.event_type == "step.delta" and event.delta.type == "arguments_delta":
            arguments[event.index] = arguments.get(event.index, "") + event.delta.arguments
    made = [(steps[index].id, steps[index].name, json.loads(text)) for index, text in arguments.items()]
    assert made == [("c1", "get_weather", {"city": "Paris"}), ("c2", "get_weather", {"city": "Rome"})]
    assert event.interaction.status == "requires_action"


@pytest.mark.parametrize("kept", [True, False])
def test_the_strictest_model_accepts_every_turn_of_a_tool_loop(demo_bridge, kept):
    with sdk(demo_bridge) as client:
        said = [{"type": "user_input", "content": [{"type": "text", "text": "Use get_weather, please."}]}]
        given = said
        previous = {}
        for _ in range(3):
            answer = client.interactions.create(
                model="demo-strict", input=given, tools=[WEATHER], store=kept, **previous
            )
            if answer.status != "requires_action":
                break
            said = [*said, *(step.model_dump(exclude_none=True) for step in answer.steps)]
            said += (answered := results(answer.steps))
            given = answered if kept else said
            previous = {"previous_interaction_id": answer.id} if kept else {}
        assert (answer.status, "sun 0" in answer.output_text) == ("completed", True)


# --- stored interactions -----------------------------------------------------------------------------


def test_a_chain_of_interactions_keeps_text_and_signatures(client, gemini):
    gemini.will_say(
        sse(
            parts_chunk({"text": "I am "}, {"text": "Gemini.", "thoughtSignature": SIGNATURE}, finish="STOP")
        ),
        sse(text_chunk("You said hello.", "STOP")),
    )
    first = client.interactions.create(model=PRO, input="Hello", system_instruction="Be brief.")
    stream = client.interactions.create(
        model=PRO, input="What did I say?", previous_interaction_id=first.id, stream=True
    )
    *_, last = stream
    second = last.interaction
    third = client.interactions.create(model=PRO, input="And before?", previous_interaction_id=second.id)
    assert third.previous_interaction_id == second.id
    assert contents(gemini) == [
        {"role": "user", "parts": [{"text": "Hello"}]},
        {"role": "model", "parts": [{"text": "I am "}, {"text": "Gemini.", "thoughtSignature": SIGNATURE}]},
        {"role": "user", "parts": [{"text": "What did I say?"}]},
        {"role": "model", "parts": [{"text": "You said hello."}]},
        {"role": "user", "parts": [{"text": "And before?"}]},
    ]
    assert first.output_text == "I am Gemini."
    assert "systemInstruction" not in gemini.asked[-1].body, "instructions are each request's own"


def test_an_interaction_can_be_retrieved_and_deleted(client, gemini):
    made = client.interactions.create(model=PRO, input="Hello")
    again = client.interactions.get(made.id)
    assert (again.output_text, again.usage, again.input) == (made.output_text, again.usage, None)
    asked = client.interactions.get(made.id, include_input=True)
    assert asked.input[0].content[0].text == "Hello"
    client.interactions.delete(made.id)
    with pytest.raises(NotFoundError):
        client.interactions.get(made.id)


def test_unstored_answers_are_not_kept(client, gemini):
    made = client.interactions.create(model=PRO, input="Hello", store=False)
    with pytest.raises(NotFoundError):
        client.interactions.get(made.id)


def test_another_key_cannot_read_a_stored_answer(client, other_client, gemini):
    made = client.interactions.create(model=PRO, input="Hello")
    asks = len(gemini.asked)
    for refused in (
        lambda: other_client.interactions.get(made.id),
        lambda: other_client.interactions.delete(made.id),
        lambda: other_client.interactions.cancel(made.id),
        lambda: other_client.interactions.create(model=PRO, input="Hi", previous_interaction_id=made.id),
    ):
        with pytest.raises(NotFoundError):
            refused()
    assert len(gemini.asked) == asks
    assert client.interactions.get(made.id).id == made.id


def test_an_answer_of_another_protocol_is_not_an_interaction(bridge, client, gemini):
    headers = {"Authorization": "Bearer alice"}
    url = f"{bridge.address}/v1/responses"
    response = requests.post(url, json={"model": "gpt-5", "input": "Hi"}, headers=headers, timeout=30).json()
    with pytest.raises(NotFoundError):
        client.interactions.get(response["id"])
    with pytest.raises(NotFoundError):
        client.interactions.create(model=PRO, input="Hi", previous_interaction_id=response["id"])
    made = client.interactions.create(model=PRO, input="Hello")
    assert requests.get(f"{url}/{made.id}", headers=headers, timeout=30).status_code == 404
    body = {"model": "gpt-5", "input": "Hi", "previous_response_id": made.id}
    assert requests.post(url, json=body, headers=headers, timeout=30).status_code == 400


def over(client, interaction_id: str, status: str):
    assert eventually(lambda: client.interactions.get(interaction_id).status == status)
    return client.interactions.get(interaction_id)


def test_background_work_is_fetched_later(client, gemini):
    gemini.will_say([*sse(text_chunk("Slow ")), 0.5, *sse(text_chunk("work.", "STOP"))])
    made = client.interactions.create(model=PRO, input="Hello", background=True)
    assert made.status in ("queued", "in_progress")
    assert over(client, made.id, "completed").output_text == "Slow work."


def test_background_work_can_be_cancelled(bridge, client, gemini):
    gemini.will_say([piece for _ in range(100) for piece in (*sse(text_chunk("more ")), 0.1)])
    made = client.interactions.create(model=PRO, input="Hello", background=True)
    assert client.interactions.cancel(made.id).status == "cancelled"
    assert client.interactions.get(made.id).status == "cancelled"
    other = requests.post(
        f"{bridge.address}/v1beta/interactions/{made.id}:cancel",
        headers={"x-goog-api-key": "alice"},
        timeout=30,
    )
    assert (other.status_code, other.json()["status"]) == (200, "cancelled")


def test_only_running_interactions_can_be_cancelled(client, gemini):
    made = client.interactions.create(model=PRO, input="Hello")
    with pytest.raises(BadRequestError, match="background"):
        client.interactions.cancel(made.id)


def test_failed_background_work_reports_its_error(client, gemini):
    gemini.will_say(sse(text_chunk("Half an ans")))
    made = client.interactions.create(model=PRO, input="Hello", background=True)
    (error,) = over(client, made.id, "failed").errors
    assert (error.code, "middle" in error.message) == ("UNAVAILABLE", True)


# --- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"agent": "deep-research-preview", "input": "Hi"}, "agent"),
        (
            {"model": PRO, "input": "Hi", "tools": [{"type": "mcp_server", "url": "http://x"}]},
            "tools[0].type",
        ),
        (
            {"model": PRO, "input": "Hi", "generation_config": {"temperature": 9}},
            "generation_config.temperature",
        ),
        ({"model": PRO, "input": [{"type": "image", "data": "aGk="}]}, "input[0].content[0].mime_type"),
    ],
)
def test_a_bad_request_names_the_field(client, body, field):
    with pytest.raises(BadRequestError) as refused:
        client.interactions.create(**body)
    (violation,) = refused.value.body["error"]["details"][0]["fieldViolations"]
    assert violation["field"] == field


def test_a_background_stream_goes_on_without_its_client_and_is_resumed(client, gemini):
    words = [f"word{number} " for number in range(8)]
    pieces = [piece for word in words for piece in (*sse(text_chunk(word)), 0.1)]
    gemini.will_say([*pieces, *sse(text_chunk("end.", "STOP"))])
    first = []
    with client.interactions.create(model=PRO, input="Hello", background=True, stream=True) as stream:
        for event in stream:
            first.append(event)
            if event.event_type == "step.delta":
                break
    interaction_id, last_event_id = first[0].interaction.id, first[-1].event_id
    for _ in range(3):  # on either worker, during the work and after it
        rest = list(client.interactions.get(interaction_id, stream=True, last_event_id=last_event_id))
        events = [*first, *rest]
        assert [event.event_id for event in events] == [str(number) for number in range(1, len(events) + 1)]
        texts = [event.delta.text for event in events if event.event_type == "step.delta"]
        assert "".join(texts) == "".join(words) + "end."
        assert events[-1].event_type == "interaction.completed"
    for wrong in ("-1", "last", "1.0", "1" * 99):
        with pytest.raises(BadRequestError, match="last_event_id"):
            client.interactions.get(interaction_id, stream=True, last_event_id=wrong)


def test_streaming_an_interaction_without_stored_events_is_refused_clearly(client, gemini):
    made = client.interactions.create(model=PRO, input="Hello")
    with pytest.raises(BadRequestError, match="stream"):
        client.interactions.get(made.id, stream=True, last_event_id="3")


def test_an_upstream_without_quota_is_a_rate_limit_error(client, gemini):
    refusal = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota"}}
    gemini.will_say(Reply([json.dumps(refusal).encode()], 429))
    with pytest.raises(RateLimitError):
        client.interactions.create(model=PRO, input="Hello")


def test_a_broken_stream_ends_with_an_error_and_is_stored_as_failed(client, gemini):
    gemini.will_say([*sse(text_chunk("Half an ans")), CUT])
    events = list(client.interactions.create(model=PRO, input="Hello", stream=True))
    assert (events[-1].event_type, events[-1].error.code) == ("error", "UNAVAILABLE")
    kept = client.interactions.get(events[0].interaction.id)
    assert (kept.status, kept.output_text) == ("failed", "Half an ans")


@pytest.mark.parametrize(("reason", "status"), [("MAX_TOKENS", "incomplete"), ("SAFETY", "incomplete")])
def test_a_truncated_answer_is_incomplete(client, gemini, reason, status):
    gemini.will_say(sse(text_chunk("Half an ans", reason)))
    answer = client.interactions.create(model=PRO, input="Hello")
    assert (answer.status, answer.output_text) == (status, "Half an ans")
    assert [error.code for error in answer.errors or []] == ([] if reason == "MAX_TOKENS" else ["SAFETY"])
