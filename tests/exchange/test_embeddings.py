"""Embeddings are booked like answers: as usage, for the limits and at their price, in both protocols."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from client_keys import ClientKeys
from flask.testing import FlaskClient
from gunicorn_bridge import ROOT
from scripted_gemini import Asked, Reply, ScriptedGemini
from waiting import eventually

from bridge.access import key_cache, running_answers
from bridge.settings import load
from bridge.settings.limits import Limits
from bridge.settings.models import today
from bridge.state.key_store import Rules
from bridge.state.stores import open_stores
from bridge.state.usage_store import UsageQuery, UsageSums, total
from bridge.web.app import create_app

PRICED, UNPRICED = "gemini-embedding-priced", "gemini-embedding-unpriced"
CONTENT = {"parts": [{"text": "Hello"}]}

Call = tuple[str, dict[str, Any]]
Make = Callable[..., FlaskClient]


def calls(model: str) -> dict[str, Call]:
    native = f"/v1beta/models/{model}"
    return {
        "openai": ("/v1/embeddings", {"model": model, "input": "Hello"}),
        "native": (f"{native}:embedContent", {"content": CONTENT}),
        "native batch": (f"{native}:batchEmbedContents", {"requests": [{"content": CONTENT}] * 2}),
    }


EACH = pytest.mark.parametrize("form", calls(""))


@pytest.fixture
def make(tmp_path: Path, gemini: ScriptedGemini, canary_key: str) -> Make:
    config = tmp_path / "config"
    config.mkdir()
    for file in (ROOT / "config").glob("*.toml"):
        (config / file.name).write_bytes(file.read_bytes())
    prices = config / "prices.toml"
    row = f'[[price]]\nmatch = ["{PRICED}"]\ninput = 2_000\noutput = 0\n'
    prices.write_text(f"{prices.read_text()}\n{row}")
    given = {
        "BRIDGE_STATE_DIR": str(tmp_path / "state"),
        "GEMINI_API_KEY": canary_key,
        "GOOGLE_GEMINI_BASE_URL": gemini.address,
        "BRIDGE_UPSTREAM__ATTEMPTS": "1",
    }
    gemini.will_answer(lambda asked: [orjson.dumps(answer_to(asked))])
    return lambda **environ: create_app(load(config, given | environ)).test_client()


def answer_to(asked: Asked) -> dict[str, Any]:
    """A vector for each text, and 50 tokens in all."""
    counted = {"usageMetadata": {"promptTokenCount": 50}}
    if asked.path.endswith(":embedContent"):
        return {"embedding": {"values": [1.0]}, **counted}
    return {"embeddings": [{"values": [1.0]}] * len(asked.body["requests"]), **counted}


def post(client: FlaskClient, call: Call, secret: str = "") -> Any:
    path, body = call
    return client.post(path, json=body, headers={"Authorization": f"Bearer {secret}"} if secret else {})


def key(tmp_path: Path, **limits: float) -> str:
    return ClientKeys(tmp_path / "state").add("alice", Rules(limits=Limits(**limits)))


def booked(tmp_path: Path) -> UsageSums | None:
    stores = open_stores(load(environ={"BRIDGE_STATE_DIR": str(tmp_path / "state")}))
    groups = stores.usage.sums(UsageQuery(("model",), today(), today()))
    return total(groups) if groups else None


@EACH
def test_usage_and_cost_are_booked(make: Make, tmp_path: Path, form: str) -> None:
    assert post(make(), calls(PRICED)[form]).status_code == 200
    sums = eventually(lambda: booked(tmp_path))
    assert (sums.requests, sums.input, sums.output) == (1, 50, 0)
    assert sums.cost == pytest.approx(0.1)


@EACH
def test_a_failed_request_is_booked_without_tokens(
    make: Make, tmp_path: Path, gemini: ScriptedGemini, form: str
) -> None:
    client = make()
    gemini.will_answer(lambda _asked: Reply([b'{"error": {"code": 503, "status": "UNAVAILABLE"}}'], 503))
    assert post(client, calls(PRICED)[form]).status_code == 503
    sums = eventually(lambda: booked(tmp_path))
    assert (sums.requests, sums.failed, sums.input) == (1, 1, 0)


@EACH
def test_tokens_count_for_the_limits_of_a_key(make: Make, tmp_path: Path, form: str) -> None:
    client, secret = make(), key(tmp_path, tokens_per_minute=90)
    assert [post(client, calls(UNPRICED)[form], secret).status_code for _ in range(3)] == [200, 200, 429]


@EACH
def test_cost_counts_for_the_limits_of_a_key(make: Make, tmp_path: Path, form: str) -> None:
    client, secret = make(), key(tmp_path, cost_per_day=0.15)
    assert [post(client, calls(PRICED)[form], secret).status_code for _ in range(3)] == [200, 200, 429]


@EACH
def test_a_limit_on_cost_needs_a_price(make: Make, tmp_path: Path, gemini: ScriptedGemini, form: str) -> None:
    secret = key(tmp_path, cost_per_day=5)
    refused = post(make(), calls(UNPRICED)[form], secret)
    assert refused.status_code == 403
    assert "has no known price here" in refused.get_json()["error"]["message"]
    assert not gemini.asked
    assert post(make(BRIDGE_LIMITS__UNPRICED="allow"), calls(UNPRICED)[form], secret).status_code == 200


def test_what_was_used_before_a_failure_is_booked(make: Make, tmp_path: Path, gemini: ScriptedGemini) -> None:
    client = make()
    replies = iter([Reply([orjson.dumps({"embeddings": [{"values": [1.0]}] * 100})]), Reply([b"{}"])])
    gemini.will_answer(lambda _asked: next(replies))
    assert post(client, ("/v1/embeddings", {"model": PRICED, "input": ["abc"] * 101})).status_code == 502
    sums = eventually(lambda: booked(tmp_path))
    assert (sums.requests, sums.failed, sums.input) == (1, 1, 101)


def test_a_model_that_a_key_may_not_use_is_refused(
    make: Make, tmp_path: Path, gemini: ScriptedGemini
) -> None:
    store = ClientKeys(tmp_path / "state")
    secret = store.add("bob", Rules(models=("gemini-embedding-2",)))
    client = make()
    assert post(client, calls(UNPRICED)["openai"], secret).status_code == 403
    assert not gemini.asked
    assert post(client, calls("text-embedding-3-small")["openai"], secret).status_code == 200


def test_a_retired_model_is_refused_since_nothing_replaces_it(make: Make, gemini: ScriptedGemini) -> None:
    refused = post(make(), calls("text-embedding-004")["openai"])
    assert (refused.status_code, refused.get_json()["error"]["code"]) == (404, "model_not_found")
    assert not gemini.asked


def test_names_of_embedding_models_are_not_listed(make: Make) -> None:
    listed = [model["id"] for model in make().get("/v1/models").get_json()["data"]]
    assert "gpt-5" in listed
    assert not [name for name in listed if "embedding" in name]


def test_no_batch_follows_when_the_key_is_revoked(
    make: Make, tmp_path: Path, gemini: ScriptedGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_answers, "BETWEEN_LOOKS", 0.05)
    monkeypatch.setattr(key_cache, "BETWEEN_LOOKS", 0)
    client, secret = make(), key(tmp_path)

    def revoked(asked: Asked) -> Reply:
        ClientKeys(tmp_path / "state").revoke("alice")
        return Reply([1.0, orjson.dumps(answer_to(asked))])

    gemini.will_answer(revoked)
    answer = post(client, ("/v1/embeddings", {"model": PRICED, "input": ["abc"] * 101}), secret)
    assert (answer.status_code, len(gemini.asked)) == (401, 1)
    assert "was revoked" in answer.get_json()["error"]["message"]
