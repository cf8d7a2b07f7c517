"""Citations, log probabilities, hosted tools and errors of Responses, with the `openai` package."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai import OpenAI
from scripted_gemini import CUT, Reply, call_chunk, sse, text_chunk

IMAGE_MODEL = "gemini-3-pro-image"
GROUNDING = {
    "webSearchQueries": ["weather"],
    "groundingChunks": [{"web": {"uri": "https://example.org/w", "title": "Weather"}}],
    "groundingSupports": [
        {
            "segment": {"startIndex": 9, "endIndex": 18, "text": "It räins"},
            "groundingChunkIndices": [0],
        }
    ],
}


@pytest.fixture
def client(bridge):
    with OpenAI(base_url=f"{bridge.address}/v1", api_key="client-key", max_retries=0) as sdk:
        yield sdk


def parts_chunk(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    ending = {} if finish is None else {"finishReason": finish}
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **ending}]}


def with_fields(chunk: dict[str, Any], **fields: Any) -> dict[str, Any]:
    (candidate,) = chunk["candidates"]
    return {**chunk, "candidates": [{**candidate, **fields}]}


def streamed(client: OpenAI, **options: Any) -> tuple[list[Any], Any]:
    with client.responses.stream(model="gpt-5", input="Hello", **options) as stream:
        events = list(stream)
        return events, events[-1].response


def test_citations_have_character_indices(client, gemini):
    last = with_fields(text_chunk("It räins.", "STOP"), groundingMetadata=GROUNDING)
    gemini.will_say(sse(text_chunk("Fräulein: "), last))
    events, final = streamed(client, tools=[{"type": "web_search"}])
    (cited,) = final.output[0].content[0].annotations
    assert final.output_text[cited.start_index : cited.end_index] == "It räins"
    assert (cited.type, cited.url, cited.title) == ("url_citation", "https://example.org/w", "Weather")
    kinds = [event.type for event in events]
    added = kinds.index("response.output_text.annotation.added")
    assert kinds[added - 1] == "response.output_text.delta"
    assert kinds[added + 1] == "response.output_text.done"
    assert dict(events[added].annotation)["start_index"] == cited.start_index
    assert final.output[1].type == "web_search_call"


def test_a_search_is_streamed_behind_the_message_that_it_supports(client, gemini):
    """Gemini names its search last, so the item cannot stand before the text as OpenAI's does."""
    last = with_fields(text_chunk("It räins.", "STOP"), groundingMetadata=GROUNDING)
    gemini.will_say(sse(text_chunk("Fräulein: "), last))
    events, final = streamed(client, tools=[{"type": "web_search"}])
    message, search = final.output
    assert (message.type, search.type, search.status) == ("message", "web_search_call", "completed")
    about = [event for event in events if getattr(event, "output_index", None) == 1]
    assert [event.type for event in about] == [
        "response.output_item.added",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.output_item.done",
    ]
    assert {event.item_id for event in about[1:4]} == {search.id}


def test_a_citation_of_a_finished_message_is_counted(client, bridge, gemini):
    """Gemini called a function before it named the sources, so the message had ended."""
    late = with_fields(parts_chunk(finish="STOP"), groundingMetadata=GROUNDING)
    cited = [text_chunk("Fräulein: It räins."), call_chunk("look", {}, "c1"), late]
    tools = [{"type": "web_search"}, {"type": "function", "name": "look"}]
    for said, expected in ((cited, 1), ([*cited[:1], late], None)):
        gemini.will_say(sse(*said))
        answer = client.responses.with_raw_response.create(model="gpt-5", input="Hello", tools=tools)
        items = {item.type: item for item in answer.parse().output}
        assert len(items["message"].content[0].annotations) == (0 if expected else 1)
        assert items["web_search_call"].action.query == "weather"
        (line,) = bridge.requests(request_id=answer.headers["x-request-id"])
        assert line.get("notes", {}).get("responses.citation_after_message") == expected


def test_log_probabilities_come_when_they_are_included(client, gemini):
    token = {"token": "Hi", "logProbability": -0.5}
    result = {"chosenCandidates": [token], "topCandidates": [{"candidates": [token]}]}
    gemini.will_say(sse(with_fields(text_chunk("Hi", "STOP"), logprobsResult=result)))
    events, final = streamed(client, include=["message.output_text.logprobs"], top_logprobs=1)
    sent = gemini.asked[-1].body["generationConfig"]
    assert (sent["responseLogprobs"], sent["logprobs"]) == (True, 1)
    (logprob,) = final.output[0].content[0].logprobs
    assert (logprob.token, logprob.logprob, logprob.bytes) == ("Hi", -0.5, [72, 105])
    assert [top.token for top in logprob.top_logprobs] == ["Hi"]
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert [each.token for event in deltas for each in event.logprobs] == ["Hi"]
    assert final.output_text == "Hi"


def test_executed_code_is_a_code_interpreter_call(client, gemini):
    code = {"executableCode": {"language": "PYTHON", "code": "print(2)"}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n"}}
    gemini.will_say(sse(parts_chunk(code), parts_chunk(result), text_chunk("Two.", "STOP")))
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    events, final = streamed(client, tools=tools)
    assert gemini.asked[-1].body["tools"] == [{"codeExecution": {}}]
    call, message = final.output
    assert (call.type, call.code, call.status) == ("code_interpreter_call", "print(2)", "completed")
    assert [(output.type, output.logs) for output in call.outputs] == [("logs", "2\n")]
    assert message.content[0].text == "Two."
    names = [event.type.removeprefix("response.code_interpreter_call") for event in events]
    assert [name for name in names if name.startswith((".", "_"))] == [
        ".in_progress",
        "_code.delta",
        "_code.done",
        ".interpreting",
        ".completed",
    ]
    gemini.will_say(sse(text_chunk("Yes.", "STOP")))
    client.responses.create(model="gpt-5", input="Sure?", previous_response_id=final.id, tools=tools)
    assert gemini.asked[-1].body["contents"][1]["parts"][:2] == [code, result]


def test_a_drawn_image_is_an_image_generation_call(client, gemini):
    drawn = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    gemini.will_say(sse(parts_chunk(drawn, finish="STOP")))
    final = client.responses.create(
        model=IMAGE_MODEL, input="Draw a cat.", tools=[{"type": "image_generation"}]
    )
    assert gemini.asked[-1].body["generationConfig"]["responseModalities"] == ["TEXT", "IMAGE"]
    (call,) = final.output
    assert (call.type, call.status, call.result) == ("image_generation_call", "completed", "iVBORw0KGgo=")


def test_a_cut_message_is_incomplete(client, gemini):
    gemini.will_say(sse(text_chunk("It was a dark and", "MAX_TOKENS")))
    _, final = streamed(client, max_output_tokens=5000)
    assert (final.status, final.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert final.output[0].status == "incomplete"
    assert final.completed_at is None


def test_a_message_before_a_call_is_complete_although_the_answer_reached_its_limit(client, gemini):
    call = {"functionCall": {"name": "look", "args": {}, "id": "c1"}}
    gemini.will_say(sse(parts_chunk({"text": "I look."}, call, finish="MAX_TOKENS")))
    _, final = streamed(client, tools=[{"type": "function", "name": "look"}])
    assert final.status == "completed"
    assert [item.status for item in final.output] == ["completed", "completed"]


def test_only_the_last_message_of_a_cut_answer_is_incomplete(client, gemini):
    code = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}}
    gemini.will_say(sse(parts_chunk({"text": "I add."}, code, {"text": "It is"}, finish="MAX_TOKENS")))
    with client.responses.create(model="gpt-5", input="Hello", stream=True) as stream:
        *_, last = stream
    assert last.type == "response.incomplete"
    assert [item.status for item in last.response.output] == ["completed", "incomplete", "incomplete"]


def test_a_failed_response_has_openais_code_and_the_bridges(client, gemini):
    gemini.will_say(Reply([*sse(text_chunk("Hel")), CUT]))
    *_, last = client.responses.create(model="gpt-5", input="Hello", stream=True)
    assert last.type == "response.failed"
    assert last.response.error.code == "server_error"
    assert last.response.error.model_extra["bridge_code"] in ("upstream_truncated", "upstream_unreachable")


def test_an_unknown_previous_response_has_a_code_of_its_own(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="gpt-5", input="Hello", previous_response_id="resp_unknown")
    assert (refused.value.code, refused.value.param) == (
        "previous_response_not_found",
        "previous_response_id",
    )


def test_the_response_has_the_settings_in_force(client, gemini):
    gemini.will_say(sse(text_chunk("Hi.", "STOP")))
    tool = {"type": "function", "name": "f"}
    final = client.responses.create(model="gpt-5", input="Hello", tools=[tool])
    assert (final.temperature, final.top_p, final.top_logprobs) == (1.0, 1.0, 0)
    assert (final.reasoning.effort, final.reasoning.summary) == (None, None)
    assert final.tools[0].strict is None
    assert final.completed_at >= final.created_at
    assert final.usage.input_tokens_details.cache_write_tokens == 0


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("SAFETY", "its safety filter objected to the prompt"),
        ("BLOCKLIST", "the prompt contains a forbidden term"),
        ("OTHER", "Google names no reason"),
        ("INVENTED_TOMORROW", "Google names no reason"),
    ],
)
def test_a_blocked_prompt_is_refused_in_words_that_gemini_never_reads(client, gemini, reason, words):
    gemini.will_say(sse({"promptFeedback": {"blockReason": reason}}))
    events, final = streamed(client)
    (message,) = final.output
    (part,) = message.content
    assert part.refusal == f"Gemini, Google's model, stopped this answer: {words} ({reason})."
    assert (final.status, final.incomplete_details.reason) == ("incomplete", "content_filter")
    (done,) = (event for event in events if event.type == "response.refusal.done")
    assert done.refusal == part.refusal
    history = [{"role": "user", "content": "Hello"}, message.model_dump(exclude_none=True)]
    client.responses.create(model="gpt-5", input=[*history, {"role": "user", "content": "Sorry"}])
    assert "stopped this answer" not in str(gemini.asked[-1].body)
