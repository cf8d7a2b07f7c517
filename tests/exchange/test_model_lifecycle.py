"""Models that retire, move and appear, with the real bridge: every request is still answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from google_models import (
    ALIVE,
    MEANT_BY_LATEST,
    REROUTED,
    RETIRED,
    error,
    google_reply,
    listed,
    model_of,
    not_found,
)
from gunicorn_bridge import Bridge, gunicorn_bridge
from scripted_gemini import Asked, ScriptedGemini, sse, text_chunk


@pytest.fixture
def google() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    scripted.will_answer(google_reply)
    scripted.will_list(listed(*ALIVE, *RETIRED))  # Google lists some models that it no longer serves
    yield scripted
    scripted.close()


@pytest.fixture
def served(google: ScriptedGemini) -> Iterator[Bridge]:
    with gunicorn_bridge(**environment(google)) as bridge:
        yield bridge


def environment(google: ScriptedGemini, **more: str) -> dict[str, str]:
    return {"GEMINI_API_KEY": "some-key-of-google", "GOOGLE_GEMINI_BASE_URL": google.address, **more}


def chat(bridge: Bridge, model: str, **fields: Any) -> requests.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], **fields}
    return requests.post(f"{bridge.address}/v1/chat/completions", json=body, timeout=60)


def asked_models(google: ScriptedGemini) -> list[str]:
    return [model_of(each) for each in google.asked]


def configs(google: ScriptedGemini) -> list[Any]:
    return [(each.body.get("generationConfig") or {}).get("thinkingConfig") for each in google.asked]


# --- retired models ----------------------------------------------------------------------------------


def test_every_retired_model_is_replaced_by_a_current_one(served: Bridge, google: ScriptedGemini) -> None:
    for model in (*RETIRED, *REROUTED):
        answer = chat(served, model)
        assert answer.status_code == 200, (model, answer.text)
        assert answer.headers["x-bridge-model"] in ALIVE
        assert answer.json()["model"] == model
    assert set(asked_models(google)) <= set(ALIVE)
    line = served.request(model="gemini-2.5-pro")
    assert line["notes"]["model.retired"] == 1
    assert line["upstream_model"] == line["model_version"] == "gemini-3.1-pro-preview"


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-5", "haiku", "gemini-flash-latest", "my-own"])
def test_delivered_aliases_for_other_vendors_models_are_served(
    served: Bridge, google: ScriptedGemini, model: str
) -> None:
    answer = chat(served, model)
    asked = answer.headers["x-bridge-model"]
    assert answer.status_code == 200
    assert answer.headers["x-bridge-model-version"] == MEANT_BY_LATEST[asked]


def test_every_protocol_goes_to_the_replacement(served: Bridge, google: ScriptedGemini) -> None:
    said = {"messages": [{"role": "user", "content": "Hello"}]}
    contents = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    bodies = {
        "/v1/responses": {"model": "gemini-2.5-flash", "input": "Hello", "stream": True},
        "/v1/messages": {"model": "gemini-2.5-flash", "max_tokens": 9, "stream": True, **said},
        "/v1/messages/count_tokens": {"model": "gemini-2.5-flash", **said},
        "/v1beta/models/gemini-2.5-flash:generateContent": contents,
        "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse": contents,
        "/v1beta/models/gemini-2.5-flash:countTokens": contents,
    }
    for path, body in bodies.items():
        answer = requests.post(f"{served.address}{path}", json=body, timeout=60)
        assert answer.status_code == 200, (path, answer.text)
        assert answer.headers["x-bridge-model"] == "gemini-3.8-flash", path
    assert set(asked_models(google)) == {"gemini-3.8-flash"}


def test_retired_models_can_be_refused(google: ScriptedGemini) -> None:
    with gunicorn_bridge(**environment(google, BRIDGE_MODELS__RETIRED="refuse")) as bridge:
        answer = chat(bridge, "gemini-2.5-pro")
        assert answer.status_code == 404
        assert answer.json()["error"]["param"] == "model"
        for part in ("'gemini-2.5-pro'", "2026-10-16", "gemini-3.1-pro-preview", "config/models.toml"):
            assert part in answer.json()["error"]["message"]
        assert chat(bridge, "gemini-3.7-flash").headers["x-bridge-model"] == "gemini-3.8-flash"
    assert asked_models(google) == ["gemini-3.8-flash"]


def test_retired_embedding_models_are_not_replaced(served: Bridge, google: ScriptedGemini) -> None:
    body = {"content": {"parts": [{"text": "Hello"}]}}
    path = "/v1beta/models/text-embedding-004:embedContent"
    answer = requests.post(f"{served.address}{path}", json=body, timeout=60)
    assert answer.status_code == 404
    assert "2026-01-14" in answer.json()["error"]["message"]
    assert asked_models(google) == []


def test_retired_models_are_not_listed(served: Bridge) -> None:
    names = {model["id"] for model in requests.get(f"{served.address}/v1/models", timeout=60).json()["data"]}
    assert names >= set(ALIVE)
    assert not names & set(RETIRED)


def test_an_unknown_model_error_says_where_to_define_it(served: Bridge) -> None:
    answer = chat(served, "gemini-0-nothing")
    assert answer.status_code == 404
    assert "'gemini-0-nothing'" in answer.json()["error"]["message"]
    assert "config/models.toml" in answer.json()["error"]["message"]


# --- a missing target model --------------------------------------------------------------------------


def test_a_missing_target_model_is_skipped_by_all_workers_with_one_warning(google: ScriptedGemini) -> None:
    google.will_answer(
        lambda asked: not_found("x") if model_of(asked) == "gemini-pro-latest" else google_reply(asked)
    )
    with gunicorn_bridge(**environment(google)) as bridge:
        first = chat(bridge, "gpt-5", stream=True)
        assert first.headers["x-bridge-model"] == "gemini-3.1-pro-preview"
        assert first.text.endswith("data: [DONE]\n\n")
        for _ in range(2):  # each worker has read the facts within a second
            served = [chat(bridge, "gpt-5").headers["x-bridge-model"] for _ in range(8)]
        assert set(served) == {"gemini-3.1-pro-preview"}
        counted = requests.post(
            f"{bridge.address}/v1/messages/count_tokens",
            json={"model": "sonnet", "messages": [{"role": "user", "content": "Hello"}]},
            timeout=60,
        )
        assert counted.json() == {"input_tokens": 7}
        assert bridge.requests(model="gpt-5")[0]["notes"]["model.gone"] == 1
        warnings = bridge.log_entries(fact="gone")
    assert asked_models(google).count("gemini-pro-latest") <= 2  # at most one request of each worker
    assert [(line["level"], line["model"], line["instead"]) for line in warnings] == [
        ("warning", "gemini-pro-latest", "gemini-3.1-pro-preview")
    ]


def test_counting_tokens_also_detects_a_missing_target_model(google: ScriptedGemini) -> None:
    google.will_answer(
        lambda asked: not_found("x") if model_of(asked) == "gemini-pro-latest" else google_reply(asked)
    )
    body = {"model": "opus", "messages": [{"role": "user", "content": "Hello"}]}
    with gunicorn_bridge(**environment(google)) as bridge:
        counted = requests.post(f"{bridge.address}/v1/messages/count_tokens", json=body, timeout=60)
        assert counted.json() == {"input_tokens": 7}
    assert asked_models(google) == ["gemini-pro-latest", "gemini-3.1-pro-preview"]


def test_when_all_target_models_are_missing_the_client_gets_an_error(google: ScriptedGemini) -> None:
    google.will_answer(lambda asked: not_found(model_of(asked)))
    with gunicorn_bridge(**environment(google)) as bridge:
        answer = chat(bridge, "gpt-5")
        assert answer.status_code == 404
        assert "maps 'gpt-5' to 'gemini-4-argon'" in answer.json()["error"]["message"]


# --- models newer than the table ---------------------------------------------------------------------


def test_a_new_model_uses_the_requested_thinking(served: Bridge, google: ScriptedGemini) -> None:
    google.will_answer(lambda asked: sse(text_chunk("Hello.", "STOP")))
    assert chat(served, "gemini-9-xenon", reasoning_effort="medium").status_code == 200
    assert configs(google) == [{"includeThoughts": True, "thinkingLevel": "MEDIUM"}]


def test_capabilities_that_google_lists_for_a_new_model_are_used(google: ScriptedGemini) -> None:
    google.will_answer(lambda asked: sse(text_chunk("Hello.", "STOP")))
    google.will_list(listed("gemini-9-xenon", thinking=False, outputTokenLimit=4096))
    with gunicorn_bridge(**environment(google)) as bridge:
        assert chat(bridge, "gemini-9-xenon", reasoning_effort="low", max_tokens=9000).status_code == 200
    assert [each.body["generationConfig"] for each in google.asked] == [{"maxOutputTokens": 4096}]


@pytest.mark.parametrize(
    ("takes", "expected"),
    [
        ({"includeThoughts"}, {"includeThoughts": True}),
        (set(), None),
    ],
)
def test_a_refused_thinking_config_is_retried_without_and_remembered(
    served: Bridge, google: ScriptedGemini, takes: set[str], expected: Any
) -> None:
    google.will_answer(lambda asked: _thinking_only_with(takes, asked))
    body = {"reasoning_effort": "high"}
    assert chat(served, "gemini-9-xenon", **body).status_code == 200
    refused = len(configs(google)) - 1
    assert refused == 1 + (not takes)
    google.asked.clear()
    for _ in range(2):
        chat(served, "gemini-9-xenon", **body)
    eventually_known = configs(google)[-1]
    assert eventually_known == expected
    warnings = [line["fact"] for line in served.log_entries(model="gemini-9-xenon") if "fact" in line]
    assert len(warnings) == refused
    assert served.requests(model="gemini-9-xenon")[-1]["notes"].keys() <= {
        "generation.thinking_amount",
        "learnt.thinking_amount_refused",
        "learnt.thinking_refused",
    }


def _thinking_only_with(takes: set[str], asked: Asked) -> Any:
    config = (asked.body.get("generationConfig") or {}).get("thinkingConfig") or {}
    if set(config) - takes:
        return error(400, "INVALID_ARGUMENT", "Thinking level is not supported for this model.")
    return sse(text_chunk("Hello.", "STOP"))


# --- storage by Google -------------------------------------------------------------------------------


def test_requests_tell_google_not_to_store_data(served: Bridge, google: ScriptedGemini) -> None:
    chat(served, "gpt-5", stream=True)
    contents = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    for wish in ({}, {"store": True}, {"store": "yes"}):
        native = f"{served.address}/v1beta/models/gemini-flash-latest:generateContent"
        requests.post(native, json={**contents, **wish}, timeout=60)
    assert [each.body["store"] for each in google.asked] == [False] * 4


def test_storing_can_be_left_to_the_google_project(google: ScriptedGemini) -> None:
    contents = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    with gunicorn_bridge(**environment(google, BRIDGE_UPSTREAM__STORE="true")) as bridge:
        chat(bridge, "gpt-5")
        native = f"{bridge.address}/v1beta/models/gemini-flash-latest:generateContent"
        requests.post(native, json={**contents, "store": True}, timeout=60)
    assert [each.body.get("store") for each in google.asked] == [None, True]


def test_an_upstream_that_refuses_the_store_field_gets_a_retry_without_it(google: ScriptedGemini) -> None:
    message = 'Invalid JSON payload received. Unknown name "store": Cannot find field.'

    def answer(asked: Asked) -> Any:
        return error(400, "INVALID_ARGUMENT", message) if "store" in asked.body else google_reply(asked)

    google.will_answer(answer)
    with gunicorn_bridge(**environment(google)) as bridge:
        assert [chat(bridge, model).status_code for model in ("gpt-5", "haiku", "gpt-5")] == [200] * 3
        assert len(bridge.log_entries(fact="store_refused")) == 1
    assert len(asked_models(google)) <= 5  # each worker detects it at most once


# --- Gemini 4 Argon ----------------------------------------------------------------------------------


def generation(google: ScriptedGemini) -> Any:
    return google.asked[-1].body["generationConfig"]


def test_gemini_4_argon_gets_no_sampling_and_a_higher_output_limit(
    served: Bridge, google: ScriptedGemini
) -> None:
    chat(served, "gemini-4-argon", temperature=0.2, top_p=0.9, max_tokens=50, reasoning_effort="minimal")
    assert generation(google) == {
        "maxOutputTokens": 2048,
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
    }
    notes = served.request(model="gemini-4-argon")["notes"]
    assert notes == {"generation.sampling_not_sent": 1, "generation.output_limit_raised": 1}


def test_gemini_4_argon_shares_its_window_between_input_and_output(
    served: Bridge, google: ScriptedGemini
) -> None:
    long = [{"role": "user", "content": "abc" * 1_000_000}]
    chat(served, "gemini-4-argon", messages=long, max_tokens=60_000)
    assert generation(google)["maxOutputTokens"] == 1048576 - 1_000_000
    chat(served, "gemini-4-argon", messages=long)
    assert generation(google)["maxOutputTokens"] == 1048576 - 1_000_000
    chat(served, "gemini-4-argon", max_tokens=60_000)
    assert generation(google)["maxOutputTokens"] == 60_000


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_of_thoughts_only_is_an_error(served: Bridge, google: ScriptedGemini, stream: bool) -> None:
    spent = text_chunk("", "MAX_TOKENS", promptTokenCount=5, thoughtsTokenCount=2048, totalTokenCount=2053)
    google.will_say(sse(spent))
    answer = chat(served, "gemini-4-argon", max_tokens=50, stream=stream)
    assert answer.status_code == 400
    assert "all 2048 output tokens for thinking" in answer.json()["error"]["message"]


def test_an_answer_with_too_many_tool_calls_is_kept(served: Bridge, google: ScriptedGemini) -> None:
    google.will_say(sse(text_chunk("Enough.", "TOO_MANY_TOOL_CALLS")))
    (choice,) = chat(served, "gemini-4-argon").json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Enough.", "stop")


def test_a_new_model_that_refuses_sampling_gets_a_retry_without_it(
    served: Bridge, google: ScriptedGemini
) -> None:
    google.will_say(error(400, "INVALID_ARGUMENT", "temperature is not supported for this model."))
    google.will_answer(lambda asked: sse(text_chunk("Hello.", "STOP")))
    assert chat(served, "gemini-9-xenon", temperature=0.5).status_code == 200
    assert "temperature" not in generation(google)
    assert len(served.log_entries(fact="sampling_refused", model="gemini-9-xenon")) == 1
