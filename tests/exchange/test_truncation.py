"""The real `openai` package with `truncation`, against a model with a small window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from counting_gemini import MODEL, CountingGemini, config_with_window
from gemini_rules import broken_rules
from gunicorn_bridge import Bridge, gunicorn_bridge
from openai import OpenAI
from scripted_gemini import ScriptedGemini

from bridge.gemini.wire import request_from_json

WINDOW = 5000


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedGemini]:
    gemini = ScriptedGemini()
    yield gemini
    gemini.close()


@pytest.fixture(scope="module")
def small(scripted: ScriptedGemini, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    with gunicorn_bridge(
        GEMINI_API_KEY="a-key",
        GOOGLE_GEMINI_BASE_URL=scripted.address,
        BRIDGE_CONFIG_DIR=str(config_with_window(tmp_path_factory.mktemp("config"), WINDOW)),
        BRIDGE_UPSTREAM__ATTEMPTS="1",
    ) as bridge:
        yield bridge


@pytest.fixture
def gemini(scripted: ScriptedGemini) -> CountingGemini:
    scripted.forget()
    return CountingGemini(scripted, WINDOW)


@pytest.fixture
def client(small: Bridge, gemini: CountingGemini) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{small.address}/v1", api_key="client-key", max_retries=0) as sdk:
        yield sdk


def long_input(turns: int = 40) -> list[Any]:
    items: list[Any] = []
    for number in range(turns):
        items.append({"role": "user", "content": f"Question {number}. " + "Please look again. " * 20})
        items.append({"role": "assistant", "content": f"Answer {number}. " + "It was found. " * 20})
    return [*items, {"role": "user", "content": "The last question."}]


def texts(body: dict[str, Any]) -> list[str]:
    parts = (part for content in body["contents"] for part in content["parts"])
    return [part["text"] for part in parts if "text" in part]


def test_auto_drops_the_oldest_turns(client, gemini, small):
    answer = client.responses.with_raw_response.create(
        model=MODEL, input=long_input(), truncation="auto", store=False
    )
    assert answer.parse().truncation == "auto"
    (sent,) = gemini.asked
    assert broken_rules(request_from_json(MODEL, sent).contents, prefill=False) == []
    said = texts(sent)
    assert said[0] == "Earlier turns of this conversation were removed to save space."
    assert said[-1] == "The last question."
    assert not any(text.startswith("Question 0.") for text in said)
    assert answer.headers["x-bridge-context"].startswith("leading_turns=")
    assert set(small.request(request_id=answer.headers["x-request-id"])["context"]) == {"leading_turns"}


def test_the_stream_and_a_continued_answer_too(client, gemini):
    with client.responses.stream(model=MODEL, input=long_input(), truncation="auto") as stream:
        for _ in stream:
            pass
        first = stream.get_final_response()
    assert first.truncation == "auto"
    following = client.responses.create(
        model=MODEL, input="Go on.", previous_response_id=first.id, truncation="auto"
    )
    assert following.status == "completed"
    assert texts(gemini.asked[-1])[-1] == "Go on."
    assert texts(gemini.asked[-1])[0] == texts(gemini.asked[0])[0]


@pytest.mark.parametrize("truncation", [{}, {"truncation": "disabled"}])
def test_disabled_is_the_vendors_error(client, gemini, truncation):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input=long_input(), **truncation)
    assert refused.value.code == "context_length_exceeded"
    assert gemini.asked == []


def test_a_turn_larger_than_the_window_is_the_vendors_error_too(client, gemini):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="much " * 10_000, truncation="auto")
    assert refused.value.code == "context_length_exceeded"
    assert gemini.asked == []


def test_what_fits_is_left_alone(client, gemini):
    answer = client.responses.create(model=MODEL, input=long_input(3), truncation="auto")
    assert answer.truncation == "auto"
    assert texts(gemini.asked[0])[0].startswith("Question 0.")
    assert client.responses.create(model=MODEL, input="Hello").truncation == "disabled"


def test_another_value_is_refused_and_named(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="Hello", truncation="sometimes")  # type: ignore[arg-type]
    assert refused.value.param == "truncation"
