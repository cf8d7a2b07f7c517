"""Legacy Completions with the real `openai` package, against real gunicorn and a scripted Gemini."""

from __future__ import annotations

import openai
import pytest
from openai import OpenAI
from scripted_gemini import CUT, Reply, sse, text_chunk
from transcripts import NAMES, json_lines

MODEL = "gpt-3.5-turbo-instruct"
BEFORE, AFTER = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"


@pytest.fixture
def client(bridge):
    with OpenAI(base_url=f"{bridge.address}/v1", api_key="client-key", max_retries=0) as sdk:
        yield sdk


def test_a_prompt_is_completed_whole(client, gemini):
    gemini.will_say(sse(text_chunk("there "), text_chunk("lived a king.", "MAX_TOKENS")))
    made = client.completions.create(model=MODEL, prompt="Once upon a time ", max_tokens=9, temperature=0)
    assert (made.object, made.model, made.id[:5]) == ("text_completion", MODEL, "cmpl-")
    (choice,) = made.choices
    assert (choice.text, choice.index, choice.logprobs) == ("there lived a king.", 0, None)
    assert choice.finish_reason == "length"
    assert (made.usage.prompt_tokens, made.usage.completion_tokens, made.usage.total_tokens) == (5, 2, 7)
    asked = gemini.asked[-1].body
    assert asked["contents"] == [{"role": "user", "parts": [{"text": "Once upon a time "}]}]
    assert asked["generationConfig"]["temperature"] == 0


def test_a_prompt_is_completed_in_a_stream(client, gemini):
    gemini.will_say(sse(text_chunk("Hel"), text_chunk("lo."), text_chunk("", "STOP")))
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.completions.create(model=MODEL, prompt="Say hello.", **options))
    assert [chunk.choices[0].text for chunk in chunks[:-1]] == ["Hel", "lo.", ""]
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None, None, "stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 7
    assert len({chunk.id for chunk in chunks}) == 1


def test_usage_is_streamed_only_to_clients_that_ask_for_it(client, gemini):
    gemini.will_say(sse(text_chunk("Hello.", "STOP")))
    chunks = list(client.completions.create(model=MODEL, prompt="Say hello.", stream=True))
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_streamed_is_the_whole_answer(client, gemini, name):
    gemini.will_say(sse(*json_lines(name)), sse(*json_lines(name)))
    options = {"model": "gemini-3.8-flash", "prompt": "Hello", "n": 2}
    try:
        whole = client.completions.create(**options)
    except openai.InternalServerError:
        with pytest.raises(openai.APIError):
            list(client.completions.create(**options, stream=True))
        return
    texts: dict[int, str] = {}
    ends: dict[int, str] = {}
    for chunk in client.completions.create(**options, stream=True):
        choice = chunk.choices[0]
        texts[choice.index] = texts.get(choice.index, "") + choice.text
        if choice.finish_reason:
            ends[choice.index] = choice.finish_reason
    assert [(each.text, each.finish_reason) for each in whole.choices] == [
        (texts[index], ends[index]) for index in sorted(texts)
    ]


# --- between two texts -------------------------------------------------------------------------------


def fill(client, gemini, *texts: str, before: str = BEFORE, after: str = AFTER, **options) -> str:
    chunks = [text_chunk(text) for text in texts]
    gemini.will_say(sse(*chunks, text_chunk("", "STOP")))
    made = client.completions.create(model=MODEL, prompt=before, suffix=after, **options)
    if options.get("stream"):
        return "".join(chunk.choices[0].text for chunk in made)
    return made.choices[0].text


def test_the_text_between_two_texts_is_asked_for_without_thoughts(client, gemini):
    assert fill(client, gemini, "a + b", max_tokens=64) == "a + b"
    asked = gemini.asked[-1].body
    assert asked["contents"][0]["parts"] == [{"text": f"{BEFORE}<|cursor|>{AFTER}"}]
    assert "<|cursor|>" in asked["systemInstruction"]["parts"][0]["text"]
    thinking = asked["generationConfig"]["thinkingConfig"]
    assert thinking == {"includeThoughts": False, "thinkingLevel": "LOW"}


@pytest.mark.parametrize(
    ("model", "least"),
    [("gemini-3.6-flash", {"thinkingLevel": "MINIMAL"}), ("gemini-3.8-flash", {"thinkingLevel": "LOW"})],
)
def test_a_model_thinks_as_little_as_it_can(client, gemini, model, least):
    gemini.will_say(sse(text_chunk("x", "STOP")))
    client.completions.create(model=model, prompt=BEFORE, suffix=AFTER)
    thinking = gemini.asked[-1].body["generationConfig"]["thinkingConfig"]
    assert thinking == {"includeThoughts": False, **least}


FENCED = ("```", "python\na +", " b\n```", "\n")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("texts", "filled"),
    [
        (FENCED, "a + b"),
        (("``", "`\na + b", "\n``", "`"), "a + b"),
        (("```python\n    a + b\n    # c\n```",), "    a + b\n    # c"),
        (("a + b\n```\n",), "a + b\n```\n"),
        (("```python\na + b\n```\nand more",), "```python\na + b\n```\nand more"),
        (("```\na\n```\n\n```\nb\n```",), "```\na\n```\n\n```\nb\n```"),
        (("```python\na + b",), "```python\na + b"),
        (("``quoted`` text",), "``quoted`` text"),
        (("``",), "``"),
        ((), ""),
    ],
)
def test_a_fence_around_the_whole_text_is_removed(client, gemini, texts, filled, stream):
    assert fill(client, gemini, *texts, stream=stream) == filled


def test_a_document_with_fences_may_get_another(client, gemini):
    fenced = "```python\na + b\n```"
    assert fill(client, gemini, fenced, before="# Example\n", after="\n```\nmore\n```\n") == fenced


def test_a_prompt_without_suffix_keeps_its_fences(client, gemini):
    gemini.will_say(sse(text_chunk("```\nx\n```", "STOP")))
    assert client.completions.create(model=MODEL, prompt="Write x").choices[0].text == "```\nx\n```"


# --- other wishes ------------------------------------------------------------------------------------


def test_the_prompt_is_repeated_before_each_choice(client, gemini):
    second = {**text_chunk("two", "STOP")["candidates"][0], "index": 1}
    chunk = text_chunk("one", "STOP")
    answer = {**chunk, "candidates": [*chunk["candidates"], second]}
    gemini.will_say(sse(answer), sse(answer))
    options = {"model": MODEL, "prompt": "Say: ", "echo": True, "n": 2}
    made = client.completions.create(**options)
    assert [choice.text for choice in made.choices] == ["Say: one", "Say: two"]
    assert gemini.asked[-1].body["generationConfig"]["candidateCount"] == 2
    chunks = list(client.completions.create(**options, stream=True))
    assert [chunk.choices[0].text for chunk in chunks[:2]] == ["Say: one", "Say: two"]


def test_the_prompt_is_repeated_before_an_empty_answer(client, gemini):
    gemini.will_say(sse({"candidates": [{"finishReason": "SAFETY", "index": 0}]}))
    (choice,) = client.completions.create(model=MODEL, prompt="Say: ", echo=True).choices
    assert (choice.text, choice.finish_reason) == ("Say: ", "content_filter")


@pytest.mark.parametrize("stream", [True, False])
def test_log_probabilities_have_the_form_of_legacy_completions(client, gemini, stream):
    result = {
        "chosenCandidates": [
            {"token": "Hel", "logProbability": -0.5},
            {"token": "lo", "logProbability": -0.25},
        ],
        "topCandidates": [{"candidates": [{"token": "Hi", "logProbability": -0.75}]}, {"candidates": []}],
    }
    more = {"chosenCandidates": [{"token": "!", "logProbability": -1.5}]}
    first, last = text_chunk("Hello"), text_chunk("!", "STOP")
    first["candidates"][0]["logprobsResult"] = result
    last["candidates"][0]["logprobsResult"] = more
    gemini.will_say(sse(first, last))
    made = client.completions.create(model=MODEL, prompt="Say hello.", logprobs=1, stream=stream)
    parts = [chunk.choices[0].logprobs for chunk in made] if stream else [made.choices[0].logprobs]
    shown = [part for part in parts if part]
    assert [token for part in shown for token in part.tokens] == ["Hel", "lo", "!"]
    assert [value for part in shown for value in part.token_logprobs] == [-0.5, -0.25, -1.5]
    assert [offset for part in shown for offset in part.text_offset] == [0, 3, 5]
    assert [top for part in shown for top in part.top_logprobs] == [
        {"Hi": -0.75, "Hel": -0.5},
        {"lo": -0.25},
        {"!": -1.5},
    ]
    asked = gemini.asked[-1].body["generationConfig"]
    assert (asked["responseLogprobs"], asked["logprobs"]) == (True, 1)


# --- what fails --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"prompt": [1, 2, 3]}, "prompt"),
        ({"prompt": [[1], [2]]}, "prompt"),
        ({"prompt": ["One", "Two"]}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"suffix": 7}, "suffix"),
        ({"n": 0}, "n"),
        ({"n": 9}, "n"),
        ({"n": 2, "best_of": 1}, "best_of"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": 1, "echo": True}, "logprobs"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"model": "m" * 300}, "model"),
    ],
)
def test_bad_input_is_a_400_that_names_the_field(client, gemini, wrong, param):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(**{"model": MODEL, "prompt": "Hi", **wrong})
    assert refused.value.body["param"] == param
    assert refused.value.body["type"] == "invalid_request_error"
    assert not gemini.asked


def test_a_request_without_a_prompt_or_a_model_is_a_400(client):
    for body, param in (({"model": MODEL}, "prompt"), ({"prompt": "Hi"}, "model")):
        with pytest.raises(openai.BadRequestError) as refused:
            client.post("/completions", body=body, cast_to=object)
        assert refused.value.body["param"] == param


def test_a_body_that_is_too_large_is_a_413(client):
    with pytest.raises(openai.APIStatusError) as refused:
        client.completions.create(model=MODEL, prompt="x" * 70_000_000)
    assert refused.value.status_code == 413


@pytest.mark.parametrize(
    ("status", "google", "raised"),
    [
        (400, "INVALID_ARGUMENT", openai.BadRequestError),
        (404, "NOT_FOUND", openai.NotFoundError),
        (429, "RESOURCE_EXHAUSTED", openai.RateLimitError),
        (503, "UNAVAILABLE", openai.InternalServerError),
    ],
)
def test_errors_arrive_as_the_sdks_own_exceptions(client, gemini, status, google, raised):
    envelope = b'{"error": {"code": %d, "message": "No.", "status": "%b"}}' % (status, google.encode())
    for stream in (True, False):
        gemini.will_say(Reply([envelope], status=status))
        with pytest.raises(raised):
            client.completions.create(model="gemini-3.8-flash", prompt="Hi", stream=stream)


@pytest.mark.parametrize("ending", [[], [CUT]])
def test_a_broken_stream_never_passes_for_a_whole_answer(client, gemini, ending):
    gemini.will_say([*sse(text_chunk("Half an ans")), *ending])
    with pytest.raises(openai.APIError):
        list(client.completions.create(model=MODEL, prompt="Hi", stream=True))


def test_a_fence_that_is_held_back_is_not_lost_when_the_stream_breaks(client, gemini):
    gemini.will_say(sse(text_chunk("```python\na")))
    with pytest.raises(openai.APIError):
        list(client.completions.create(model=MODEL, prompt="x = ", suffix="\n", stream=True))
