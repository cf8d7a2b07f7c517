"""Which keys may use an agent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from agent_bridge import agent_bridge
from client_keys import ClientKeys
from gunicorn_bridge import Bridge
from scripted_gemini import ScriptedGemini
from waiting import eventually

from bridge.state.key_store import Rules

BASE = "gemini-3.8-flash"


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    gemini = ScriptedGemini()
    with agent_bridge(gemini, tmp_path_factory.mktemp("agents")) as running:
        yield running
    gemini.close()


def key(bridge: Bridge, name: str, models: str) -> str:
    return ClientKeys(bridge.state).add(name, Rules(models=(models,)))


def ask(bridge: Bridge, secret: str, model: str) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"authorization": f"Bearer {secret}"}
    return requests.post(
        f"{bridge.address}/v1/chat/completions", json=body, headers=headers, timeout=20
    ).status_code


def listing(bridge: Bridge, headers: dict[str, str]) -> requests.Response:
    return requests.get(f"{bridge.address}/v1/models", headers=headers, timeout=10)


def test_a_key_for_a_model_may_not_use_its_agents(bridge: Bridge) -> None:
    secret = key(bridge, "model", BASE)
    assert eventually(lambda: ask(bridge, secret, BASE) == 200)
    assert eventually(lambda: ask(bridge, secret, "agent/reader") == 403)  # both workers know the key
    headers = {"authorization": f"Bearer {secret}"}
    answer = eventually(lambda: found if (found := listing(bridge, headers)).ok else None)
    listed = answer.json()["data"]
    assert not [model["id"] for model in listed if model["id"].startswith("agent/")]


@pytest.mark.parametrize("models", ["agent/reader", "agent/*"])
def test_a_key_for_an_agent_may_use_it_without_its_model(bridge: Bridge, models: str) -> None:
    secret = key(bridge, models.strip("*/").replace("/", "-"), models)
    assert eventually(lambda: ask(bridge, secret, "agent/reader") == 200)
    assert eventually(lambda: ask(bridge, secret, BASE) == 403)
