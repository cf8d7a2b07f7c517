"""`service_tier`, from each protocol to Google and back: the real app, and a scripted Google on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient
from scripted_gemini import Reply, ScriptedGemini, sse, text_chunk

from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.service_tier import normalise_tier, tier_from_usage
from bridge.settings import SettingsError, load
from bridge.settings.models import ModelRow, ModelTable
from bridge.web.app import create_app

HELLO = [{"role": "user", "content": "Hello"}]
CHAT = ("/v1/chat/completions", {"model": "gemini-3.8-flash", "messages": HELLO})
RESPONSES = ("/v1/responses", {"model": "gemini-3.8-flash", "input": "Hello"})
MESSAGES = ("/v1/messages", {"model": "gemini-3.8-flash", "messages": HELLO, "max_tokens": 9})
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
NATIVE = ("/v1beta/models/gemini-3.8-flash:generateContent", CONTENTS)

OVERLOADED = {"code": 503, "status": "UNAVAILABLE", "message": "This model is experiencing high demand."}
LIMITED = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Resource has been exhausted."}
NOT_FOR_THE_MODEL = {
    "code": 400,
    "status": "INVALID_ARGUMENT",
    "message": "Flex API is not supported for model: gemini-3.8-flash.",
}
UNKNOWN_FIELD = {
    "code": 400,
    "status": "INVALID_ARGUMENT",
    "message": 'Invalid JSON payload received. Unknown name "serviceTier": Cannot find field.',
}

Make = Callable[..., FlaskClient]


@pytest.fixture
def make(tmp_path: Path, gemini: ScriptedGemini, canary_key: str) -> Make:
    def make_client(models: ModelTable | None = None, **environ: str) -> FlaskClient:
        given = {
            "BRIDGE_STATE_DIR": str(tmp_path),
            "GEMINI_API_KEY": canary_key,
            "GOOGLE_GEMINI_BASE_URL": gemini.address,
            "BRIDGE_UPSTREAM__ATTEMPTS": "1",
        }
        settings = load(environ=given | environ)
        return create_app(replace(settings, models=models or settings.models)).test_client()

    return make_client


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Callable[[], Any]:
    caplog.set_level("INFO", "bridge.access")
    return lambda: [each for each in caplog.records if each.name == "bridge.access"][-1]


def ask(client: FlaskClient, call: tuple[str, dict[str, Any]], **more: Any) -> Any:
    path, body = call
    return client.post(path, json={**body, **more}, buffered=True)


def served(tier: str | None, **more: str) -> list[bytes]:
    """Return an answer whose usage names the serving tier in every chunk, like Google's."""
    said = {} if tier is None else {"serviceTier": tier}
    counts: Any = {"promptTokenCount": 5, "candidatesTokenCount": 2, **said, **more}
    return sse(text_chunk("Hel", **counts), text_chunk("lo.", "STOP", **counts))


def refused(error: dict[str, Any]) -> Reply:
    return Reply([orjson.dumps({"error": error})], error["code"])


def sent(gemini: ScriptedGemini) -> list[str | None]:
    return [asked.body.get("serviceTier") for asked in gemini.asked]


def reported_tier(answer: Any) -> Any:
    """Return the tier that the answer reports, in the protocol's own field."""
    body = answer.get_json()
    return body["usage"].get("service_tier") if "stop_reason" in body else body.get("service_tier")


# --- to Google ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "wish", "on_the_wire"),
    [
        *((call, "flex", "flex") for call in (CHAT, RESPONSES)),
        *((call, "priority", "priority") for call in (CHAT, RESPONSES)),
        *((call, "fast", "priority") for call in (CHAT, RESPONSES)),
        *((call, "default", None) for call in (CHAT, RESPONSES)),
        *((call, "auto", None) for call in (CHAT, RESPONSES, MESSAGES)),
        *((call, None, None) for call in (CHAT, RESPONSES, MESSAGES)),
        (MESSAGES, "standard_only", None),
    ],
)
def test_the_service_tier_reaches_google_by_googles_name(make: Make, gemini, call, wish, on_the_wire) -> None:
    assert ask(make(), call, service_tier=wish).status_code == 200
    assert sent(gemini) == [on_the_wire]


@pytest.mark.parametrize(
    ("field", "value", "on_the_wire"),
    [
        ("serviceTier", "flex", "flex"),
        ("service_tier", "priority", "priority"),
        ("serviceTier", "SERVICE_TIER_FLEX", "flex"),
        ("serviceTier", "PRIORITY", "priority"),
        ("serviceTier", "unspecified", None),
        ("serviceTier", 2, 2),
    ],
)
def test_a_native_request_keeps_its_tier(make: Make, gemini, field, value, on_the_wire) -> None:
    assert ask(make(), NATIVE, **{field: value}).status_code == 200
    assert sent(gemini) == [on_the_wire]


@pytest.mark.parametrize("call", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("wish", ["ultrafast", "standard", 1, ["flex"]])
def test_an_unknown_tier_is_refused_by_name(make: Make, gemini, call, wish) -> None:
    answer = ask(make(), call, service_tier=wish)
    assert answer.status_code == 400
    assert "service_tier: must be one of auto" in answer.get_data(as_text=True)
    assert gemini.asked == []


@pytest.mark.parametrize("tier", ["standard", "flex", "priority"])
@pytest.mark.parametrize("call", [CHAT, RESPONSES, MESSAGES])
def test_the_meaning_of_auto_is_a_setting(make: Make, gemini, call, tier) -> None:
    client = make(BRIDGE_UPSTREAM__AUTO_TIER=tier)
    assert ask(client, call, service_tier="auto").status_code == 200
    assert ask(client, call).status_code == 200
    assert sent(gemini) == [None if tier == "standard" else tier, None], "who says nothing gets standard"


def test_the_setting_accepts_only_googles_tiers() -> None:
    with pytest.raises(SettingsError, match=r"auto_tier must be a text: standard, flex or priority"):
        load(environ={"BRIDGE_UPSTREAM__AUTO_TIER": "turbo"})


def test_tokens_are_counted_without_a_tier(make: Make, gemini) -> None:
    gemini.will_say(Reply([b'{"totalTokens": 3}']))
    body = {"generateContentRequest": {**CONTENTS, "serviceTier": "flex"}}
    answer = make().post("/v1beta/models/gemini-3.8-flash:countTokens", json=body)
    assert answer.get_json() == {"totalTokens": 3}
    assert "serviceTier" not in gemini.asked[0].body["generateContentRequest"]


# --- to the client -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "wish", "reported", "answer"),
    [
        (CHAT, "flex", "flex", "flex"),
        (CHAT, "priority", "standard", "default"),  # Google had no capacity in the priority tier
        (CHAT, "priority", None, "priority"),  # Google does not report it, so the requested tier counts
        (CHAT, "auto", None, "default"),
        (CHAT, None, "standard", None),  # not requested, so not reported
        (RESPONSES, "flex", "FLEX", "flex"),
        (RESPONSES, "priority", "standard", "default"),
        (RESPONSES, "fast", None, "priority"),
        (RESPONSES, None, None, "default"),
        (MESSAGES, "auto", "priority", "priority"),
        (MESSAGES, "standard_only", None, "standard"),
        (MESSAGES, None, "standard", None),
    ],
)
def test_the_answer_reports_the_serving_tier(
    make: Make, gemini, records, call, wish, reported, answer
) -> None:
    gemini.will_say(served(reported), served(reported))
    whole = ask(make(), call, service_tier=wish)
    assert reported_tier(whole) == answer
    streamed = ask(make(), call, service_tier=wish, stream=True).get_data()
    assert tiers_in(streamed) <= {answer} if answer else not tiers_in(streamed)
    assert not answer or tiers_in(streamed)
    assert getattr(records(), "service_tier", None) == (
        normalise_tier(reported) if reported else sent_as(wish)
    )


def tiers_in(stream: bytes) -> set[str]:
    """Return every tier that an event of the stream names."""
    events = [json.loads(line[6:]) for line in stream.split(b"\n") if line.startswith(b"data: {")]
    slots = [(event, event.get("response"), event.get("usage"), event.get("message")) for event in events]
    found = [place for each in slots for place in each if place]
    found += [place["usage"] for place in found if isinstance(place.get("usage"), dict)]
    return {place["service_tier"] for place in found if "service_tier" in place}


def sent_as(wish: str | None) -> str | None:
    return {"priority": "priority", "fast": "priority", "flex": "flex"}.get(wish or "")


def test_every_chat_chunk_reports_the_serving_tier(make: Make, gemini) -> None:
    gemini.will_say(served("flex"))
    wanted = {"service_tier": "flex", "stream": True, "stream_options": {"include_usage": True}}
    lines = ask(make(), CHAT, **wanted).get_data().split(b"\n")
    chunks = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
    assert len(chunks) > 3
    assert {chunk["service_tier"] for chunk in chunks} == {"flex"}


def test_a_native_answer_is_unchanged(make: Make, gemini) -> None:
    gemini.will_say(served("priority"))
    answer = ask(make(), NATIVE, serviceTier="priority").get_json()
    assert answer["usageMetadata"]["serviceTier"] == "priority"


@pytest.mark.parametrize(
    ("usage", "tier"),
    [
        ({"trafficType": "ON_DEMAND"}, "standard"),
        ({"trafficType": "ON_DEMAND_FLEX"}, "flex"),
        ({"trafficType": "ON_DEMAND_PRIORITY"}, "priority"),
        ({"trafficType": "PROVISIONED_THROUGHPUT"}, None),
        ({"trafficType": 7}, None),
        ({"serviceTier": "SERVICE_TIER_UNSPECIFIED"}, "standard"),
        ({"serviceTier": {}}, None),
        ({}, None),
    ],
)
def test_each_form_of_googles_tier_report_is_parsed(usage, tier) -> None:
    assert tier_from_usage(usage) == tier


# --- no capacity, unknown tiers ----------------------------------------------------------------------


@pytest.mark.parametrize("error", [OVERLOADED, LIMITED], ids=["503", "429"])
@pytest.mark.parametrize("call", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
def test_auto_falls_back_to_standard_when_flex_has_no_capacity(
    make: Make, gemini, records, call, error, stream
) -> None:
    client = make(BRIDGE_UPSTREAM__AUTO_TIER="flex")
    for _ in range(2):  # the second finds no cool-down, neither of the model nor of the only key
        gemini.forget()
        gemini.will_say(refused(error), served("standard"))
        answer = ask(client, call, service_tier="auto", stream=stream)
        assert answer.status_code == 200
        assert b"lo." in answer.get_data()
        assert sent(gemini) == ["flex", None]
        assert records().notes["service_tier.flex_shed"] == 1
        assert "cooldown" not in "".join(records().notes)
        assert records().service_tier == "standard"


def test_auto_does_not_wait_for_a_tier_in_cooldown(make: Make, gemini, records) -> None:
    client = make(BRIDGE_UPSTREAM__AUTO_TIER="flex")
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "30s"}
    gemini.will_say(refused({**LIMITED, "details": [delay]}), served("standard"), served("standard"))
    assert ask(client, CHAT, service_tier="auto").status_code == 200
    assert ask(client, CHAT, service_tier="auto").status_code == 200
    assert sent(gemini) == ["flex", None, None], "the key rests for flex, and for nothing else"
    assert records().notes["service_tier.flex_shed"] == 1


@pytest.mark.parametrize(
    ("call", "error", "status"),
    [
        (CHAT, OVERLOADED, 503),
        (CHAT, LIMITED, 429),
        (RESPONSES, OVERLOADED, 503),
        (NATIVE, LIMITED, 429),
    ],
)
def test_requested_flex_without_capacity_is_an_error(make: Make, gemini, call, error, status) -> None:
    flex = {"serviceTier": "flex"} if call is NATIVE else {"service_tier": "flex"}
    gemini.will_say(refused(error))
    assert ask(make(), call, **flex).status_code == status
    assert sent(gemini) == ["flex"]


def test_auto_without_capacity_at_standard_is_an_error(make: Make, gemini, records) -> None:
    gemini.will_say(refused(OVERLOADED), refused(OVERLOADED))
    client = make(BRIDGE_UPSTREAM__AUTO_TIER="flex")
    assert ask(client, MESSAGES, service_tier="auto").status_code == 529
    assert sent(gemini) == ["flex", None]
    assert records().notes["cooldown.overloaded"] == 1


@pytest.mark.parametrize("error", [OVERLOADED, LIMITED], ids=["503", "429"])
def test_a_model_without_flex_capacity_cools_down_in_flex_only(make: Make, gemini, error) -> None:
    row = ModelRow(("gemini-3.8-flash",), ModelCapabilities(fallbacks=("gemini-3.6-flash",)))
    client = make(ModelTable(("gemini-3.8-flash",), ("gemini-*",), rows=(row,)))
    gemini.will_say(refused(error))
    for tier in ("flex", "flex", "default"):
        assert ask(client, CHAT, service_tier=tier).status_code == 200
    paths = [asked.path for asked in gemini.asked]
    models = [path.rpartition("/")[2].partition(":")[0] for path in paths]
    assert list(zip(models, sent(gemini), strict=True)) == [
        ("gemini-3.8-flash", "flex"),
        ("gemini-3.6-flash", "flex"),
        ("gemini-3.6-flash", "flex"),  # the first model still cools down in flex
        ("gemini-3.8-flash", None),
    ]


@pytest.mark.parametrize("error", [NOT_FOR_THE_MODEL, UNKNOWN_FIELD], ids=["model", "field"])
@pytest.mark.parametrize("call", [CHAT, RESPONSES, NATIVE])
def test_an_upstream_without_service_tiers_answers_without_one(
    make: Make, gemini, records, call, error
) -> None:
    gemini.will_say(refused(error), served(None))
    name = "serviceTier" if call is NATIVE else "service_tier"
    answer = ask(make(), call, **{name: "flex"})
    assert answer.status_code == 200
    assert sent(gemini) == ["flex", None]
    assert records().notes["service_tier.refused"] == 1
    assert call is NATIVE or reported_tier(answer) == "default"


def test_a_tier_is_dropped_once(make: Make, gemini) -> None:
    gemini.will_say(refused(UNKNOWN_FIELD), refused(UNKNOWN_FIELD))
    answer = ask(make(), CHAT, service_tier="priority")
    assert answer.status_code == 400
    assert sent(gemini) == ["priority", None]


def test_a_flex_answer_may_start_late(make: Make, gemini) -> None:
    client = make(BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT="0.2", BRIDGE_SERVER__HEARTBEAT="0.1")
    slow = Reply([*served("flex")])
    gemini.will_answer(lambda _asked: (time.sleep(0.6), slow)[1])
    assert ask(client, CHAT).status_code == 504
    assert ask(client, CHAT, service_tier="flex").status_code == 200
