"""Models without a price: logged at start, counted, and refused under a cost limit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import orjson
import pytest
from client_keys import ClientKeys
from flask.testing import FlaskClient
from gunicorn_bridge import ROOT, Bridge, clean_environment, gunicorn_bridge
from openai import OpenAI
from scripted_gemini import Reply, ScriptedGemini, sse, text_chunk
from waiting import eventually

from bridge.gemini.types import Usage
from bridge.settings import Settings, SettingsError, load
from bridge.settings.limits import Limits
from bridge.state.key_store import Rules
from bridge.web.app import create_app

UNKNOWN = "gemini-unheard-of"
HELLO = [{"role": "user", "content": "Hello"}]
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
OVERLOADED = {"error": {"code": 503, "status": "UNAVAILABLE", "message": "Busy."}}
GONE = Reply([b'{"error": {"code": 404, "status": "NOT_FOUND", "message": "No such model."}}'], 404)

Call = tuple[str, dict[str, Any]]
Make = Callable[..., FlaskClient]


def calls(model: str) -> dict[str, Call]:
    return {
        "chat": ("/v1/chat/completions", {"model": model, "messages": HELLO}),
        "responses": ("/v1/responses", {"model": model, "input": "Hello"}),
        "completions": ("/v1/completions", {"model": model, "prompt": "Hello"}),
        "messages": ("/v1/messages", {"model": model, "messages": HELLO, "max_tokens": 9}),
        "native": (f"/v1beta/models/{model}:generateContent", CONTENTS),
        "native stream": (f"/v1beta/models/{model}:streamGenerateContent", CONTENTS),
    }


EACH = pytest.mark.parametrize("protocol", calls(""))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A copy of the delivered configuration that the test can change."""
    folder = tmp_path / "config"
    folder.mkdir()
    for file in (ROOT / "config").glob("*.toml"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.fixture
def settings(tmp_path: Path, gemini: ScriptedGemini, canary_key: str, config: Path):
    def read(**environ: str) -> Settings:
        given = {
            "BRIDGE_STATE_DIR": str(tmp_path),
            "GEMINI_API_KEY": canary_key,
            "GOOGLE_GEMINI_BASE_URL": gemini.address,
            "BRIDGE_UPSTREAM__ATTEMPTS": "1",
        }
        return load(config, given | environ)

    return read


@pytest.fixture
def make(settings: Callable[..., Settings]) -> Make:
    return lambda **environ: create_app(settings(**environ)).test_client()


def ask(client: FlaskClient, call: Call, secret: str = "", **more: Any) -> Any:
    path, body = call
    headers = {"x-api-key": secret} if secret else {}
    return client.post(path, json={**body, **more}, headers=headers, buffered=True)


def asked_models(gemini: ScriptedGemini) -> list[str]:
    """The models of the requests that cost money; requests for the list of models are kept apart."""
    paths = [asked.path for asked in gemini.asked]
    return [path.rpartition("/")[2].partition(":")[0] for path in paths]


# --- under a cost limit ------------------------------------------------------------------------------


@EACH
def test_a_model_without_a_price_is_refused_before_anything_is_sent(make: Make, gemini, protocol) -> None:
    answer = ask(make(BRIDGE_LIMITS__COST_PER_DAY="5"), calls(UNKNOWN)[protocol])
    assert answer.status_code == (400 if protocol == "messages" else 403)
    text = answer.get_data(as_text=True)
    assert f"The model '{UNKNOWN}' has no known price here, and a limit on cost applies" in text
    assert "config/prices.toml" in text
    assert asked_models(gemini) == []


@EACH
def test_a_model_with_a_price_passes(make: Make, gemini, protocol) -> None:
    assert ask(make(BRIDGE_LIMITS__COST_PER_DAY="5"), calls("gemini-4-argon")[protocol]).status_code == 200


def test_each_protocol_has_its_own_error_for_an_unpriced_model(make: Make, gemini) -> None:
    client = make(BRIDGE_LIMITS__COST_PER_DAY="5")
    told = {protocol: ask(client, call).get_json() for protocol, call in calls(UNKNOWN).items()}
    assert (told["chat"]["error"]["code"], told["chat"]["error"]["param"]) == ("model_not_allowed", "model")
    assert told["responses"]["error"]["code"] == "model_not_allowed"
    assert told["messages"]["error"]["type"] == "invalid_request_error"
    assert told["native"]["error"]["status"] == "PERMISSION_DENIED"


@EACH
def test_without_a_cost_limit_an_unpriced_model_passes(make: Make, gemini, protocol) -> None:
    assert ask(make(BRIDGE_LIMITS__TOKENS_PER_DAY="100000"), calls(UNKNOWN)[protocol]).status_code == 200


@EACH
def test_a_setting_allows_unpriced_models(make: Make, gemini, protocol) -> None:
    client = make(BRIDGE_LIMITS__COST_PER_DAY="5", BRIDGE_LIMITS__UNPRICED="allow")
    assert ask(client, calls(UNKNOWN)[protocol]).status_code == 200


@pytest.mark.parametrize(("model", "price"), [("gemini-embedding-001", 0.15), ("gemini-embedding-2", 0.20)])
def test_embedding_models_have_a_price(make: Make, settings, gemini, model, price) -> None:
    assert settings().prices.cost_of(Usage({"promptTokenCount": 10**6}), model) == price
    gemini.will_say([orjson.dumps({"embeddings": [{"values": [1.0]}]})])
    client = make(BRIDGE_LIMITS__COST_PER_DAY="5")
    assert ask(client, ("/v1/embeddings", {"model": model, "input": "Hello"})).status_code == 200


def test_a_keys_cost_limit_refuses_unpriced_models(make: Make, gemini, tmp_path: Path) -> None:
    keys = ClientKeys(tmp_path)
    thrifty = keys.add("thrifty", Rules(limits=Limits(cost_per_day=1.0)))
    free = keys.add("free", Rules(limits=Limits(tokens_per_day=10**9)))
    client, call = make(), calls(UNKNOWN)["chat"]
    assert ask(client, call, thrifty).status_code == 403
    assert ask(client, call, free).status_code == 200


def test_the_resolved_model_must_have_a_price(make: Make, gemini, config: Path) -> None:
    _alias(config, "claude-dear", UNKNOWN)
    _alias(config, "unheard-of", "gemini-3.8-flash")
    client = make(BRIDGE_LIMITS__COST_PER_DAY="5")
    assert ask(client, calls("claude-dear")["chat"]).status_code == 403
    assert ask(client, calls("unheard-of")["chat"]).status_code == 200


def _alias(config: Path, name: str, model: str) -> None:
    table = config / "models.toml"
    first, mark, rest = table.read_text().partition("[[alias]]")
    table.write_text(f'{first}[[alias]]\nmatch = ["{name}"]\nmodel = "{model}"\n\n{mark}{rest}')


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ({}, ["gemini-3.8-flash", UNKNOWN]),
        ({"BRIDGE_LIMITS__COST_PER_DAY": "5"}, ["gemini-3.8-flash", "gemini-3.6-flash"]),
    ],
)
def test_an_unpriced_fallback_model_is_skipped(make: Make, gemini, config: Path, limits, asked) -> None:
    table = config / "models.toml"
    row = f'[[model]]\nmatch = ["gemini-3.8-flash"]\nfallbacks = ["{UNKNOWN}", "gemini-3.6-flash"]\n\n'
    table.write_text(table.read_text().replace("[[model]]", f"{row}[[model]]", 1))
    gemini.will_say(Reply([orjson.dumps(OVERLOADED)], 503))
    assert ask(make(**limits), calls("gemini-3.8-flash")["chat"]).status_code == 200
    assert asked_models(gemini) == asked


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ({}, ["gemini-3.8-flash", UNKNOWN]),
        ({"BRIDGE_LIMITS__COST_PER_DAY": "5"}, ["gemini-3.8-flash", "gemini-3.6-flash"]),
    ],
)
def test_an_unpriced_replacement_of_a_missing_model_is_skipped(make: Make, gemini, limits, asked) -> None:
    gemini.will_answer(lambda each: GONE if "3.8" in each.path else sse(text_chunk("Hi.", "STOP")))
    client = make(DEFAULT_MODEL=f"gemini-3.8-flash,{UNKNOWN},gemini-3.6-flash", **limits)
    assert ask(client, calls("my-own-name")["chat"]).status_code == 200
    assert asked_models(gemini) == asked


def test_a_service_tier_without_a_factor_has_no_price(make: Make, gemini, config: Path) -> None:
    (config / "prices.toml").write_text(
        'currency = "USD"\n[[price]]\nmatch = ["gemini-*"]\ninput = 1\noutput = 1\n'
    )
    client, call = make(BRIDGE_LIMITS__COST_PER_DAY="5"), calls("gemini-3.8-flash")["chat"]
    answer = ask(client, call, service_tier="flex")
    assert answer.status_code == 403
    assert "no known price here in the service tier 'flex'" in answer.get_json()["error"]["message"]
    assert ask(client, call).status_code == 200


def test_counting_tokens_of_an_unpriced_model_is_allowed(make: Make, gemini) -> None:
    gemini.will_say(Reply([b'{"totalTokens": 3}']))
    client = make(BRIDGE_LIMITS__COST_PER_DAY="5")
    answer = client.post("/v1/messages/count_tokens", json={"model": UNKNOWN, "messages": HELLO})
    assert answer.get_json() == {"input_tokens": 3}


def test_the_offline_model_is_free_under_any_name(tmp_path: Path) -> None:
    given = {"BRIDGE_STATE_DIR": str(tmp_path), "BRIDGE_LIMITS__COST_PER_DAY": "5"}
    settings = load(environ=given)
    assert settings.unpriced_models == []
    assert ask(create_app(settings).test_client(), calls(UNKNOWN)["chat"]).status_code == 200


def test_the_setting_has_two_values() -> None:
    with pytest.raises(SettingsError, match=r"limits\.unpriced must be a text: refuse or allow"):
        load(environ={"BRIDGE_LIMITS__UNPRICED": "charge"})


def test_every_model_in_the_tables_is_checked(settings, config: Path) -> None:
    assert settings().unpriced_models == []
    _alias(config, "a", "gemini-nobody")
    table = config / "models.toml"
    row = f'[[model]]\nmatch = ["x"]\nfallbacks = ["{UNKNOWN}"]\n\n'
    table.write_text(table.read_text().replace("[[model]]", f"{row}[[model]]", 1))
    assert settings().unpriced_models == ["gemini-nobody", UNKNOWN]


# --- the whole service -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


@pytest.fixture(scope="module")
def budgeted(upstream: ScriptedGemini, canary_key: str) -> Iterator[Bridge]:
    with gunicorn_bridge(
        GEMINI_API_KEY=canary_key,
        GOOGLE_GEMINI_BASE_URL=upstream.address,
        DEFAULT_MODEL=UNKNOWN,
        BRIDGE_LIMITS__COST_PER_DAY="0.001",
        BRIDGE_UPSTREAM__AUTO_TIER="flex",
    ) as running:
        yield running


@pytest.fixture
def sdk(budgeted: Bridge, upstream: ScriptedGemini) -> Iterator[OpenAI]:
    upstream.forget()
    with OpenAI(base_url=f"{budgeted.address}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_unpriced_models_are_logged_at_start(budgeted: Bridge) -> None:
    (warning,) = [
        line for line in budgeted.log_entries(level="warning") if "without a price" in line["message"]
    ]
    assert UNKNOWN in warning["message"]
    assert "requests to them are rejected if a cost limit applies" in warning["message"]


def test_the_openai_sdk_gets_the_administrators_instructions(sdk: OpenAI, upstream) -> None:
    with pytest.raises(openai.PermissionDeniedError, match=f"{UNKNOWN}.*config/prices.toml") as caught:
        sdk.chat.completions.create(model=UNKNOWN, messages=HELLO)
    assert caught.value.param == "model"
    with pytest.raises(openai.PermissionDeniedError, match=r"prices\.toml"):
        sdk.responses.create(model="a-name-that-means-the-default", input="Hello", stream=True)
    assert asked_models(upstream) == []


def test_the_serving_tier_is_priced_and_the_budget_is_kept(
    sdk: OpenAI, upstream: ScriptedGemini, budgeted: Bridge
) -> None:
    thousand: Any = {"promptTokenCount": 1000, "candidatesTokenCount": 0, "serviceTier": "flex"}
    upstream.will_say(sse(text_chunk("Hi.", "STOP", **thousand)))
    answer = sdk.chat.completions.create(model="gemini-3.8-flash", messages=HELLO, service_tier="flex")
    assert answer.service_tier == "flex"
    upstream.will_say(
        Reply([orjson.dumps(OVERLOADED)], 503),
        sse(text_chunk("Hi.", "STOP", **{**thousand, "serviceTier": "standard"})),
    )
    with sdk.responses.stream(model="gemini-3.8-flash", input="Hello", service_tier="auto") as stream:
        final = stream.until_done().get_final_response()
    assert final.service_tier == "default"
    tiers = [asked.body.get("serviceTier") for asked in upstream.asked if asked.body]
    assert tiers == ["flex", "flex", None]
    rows = eventually(lambda: two_rows(budgeted))
    assert {row["tier"]: row["cost"] for row in rows} == {
        "flex": pytest.approx(0.000375),
        "standard": pytest.approx(0.00075),
    }
    assert budgeted.request(service_tier="standard")["notes"]["service_tier.flex_shed"] == 1
    with pytest.raises(openai.RateLimitError, match=r"a cost of 0\.001 per day"):
        sdk.chat.completions.create(model="gemini-3.8-flash", messages=HELLO)


def two_rows(bridge: Bridge) -> list[dict[str, Any]]:
    code = "import sys; from bridge.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "usage", "--json", "--by", "tier"]
    environ = clean_environment() | {"BRIDGE_STATE_DIR": str(bridge.state)}
    printed = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=True, timeout=60)
    rows = json.loads(printed.stdout)["rows"]
    return rows if len(rows) == 2 else []
