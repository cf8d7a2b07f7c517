"""The choice of the Responses dialect: by header, by key, by client, by setting."""

from __future__ import annotations

import http.client
import json
from contextlib import closing

import pytest
from client_keys import ClientKeys

from bridge.access import key_cache as ring_module
from bridge.settings import load
from bridge.state.key_store import Rules
from bridge.web.app import create_app

#: User agents of these clients.
USER_AGENTS = {
    None: "bridge",  # Python's http.client
    "": "bridge",
    "curl/7.88.1": "bridge",
    "Wget/1.21.3": "bridge",
    "HTTPie/3.2.4": "bridge",
    "PostmanRuntime/7.49.1": "bridge",
    "python-requests/2.34.2": "bridge",
    "python-httpx/0.28.1": "bridge",
    "Python-urllib/3.11": "bridge",
    "Python/3.11 aiohttp/3.14.5": "bridge",
    "Werkzeug/3.1.3": "bridge",
    "codex_exec/0.169.0 (Debian 12.0.0; x86_64) unknown (codex_exec; 0.169.0)": "codex",
    "codex_cli_rs/0.169.0": "codex",
    "OpenAI/Python 3.49.0": "openai",
    "OpenAI/JS 6.49.0": "openai",
    "OpenAI/Go 3.2.0": "openai",
    "OpenAI/2.9.0 (.NET 9.0.1; Linux)": "openai",
    "Go-http-client/1.1": "openai",
    "ai-sdk/openai/4.0.118 ai-sdk/provider-utils/5.0.40 runtime/node.js/24": "openai",
    "opencode/1.18.33 ai-sdk/provider-utils/4.0.40 runtime/bun/1.3.14": "openai",
    "litellm/1.106.2": "openai",
    "lm15/stdlib": "openai",  # dspy
    "node": "openai",
    "undici": "openai",
    "gemini-bridge-probe": "openai",
}
QUESTION = {"model": "gpt-5", "input": "Hello", "store": False}
CURL, SDK = {"User-Agent": "curl/8.5.0"}, {"User-Agent": "OpenAI/Python 3.49.0"}


def posted(address: str, agent: str | None) -> tuple[http.client.HTTPResponse, str]:
    """Send this user agent or none, without headers that a library would add."""
    headers = {"Content-Type": "application/json"} | ({} if agent is None else {"User-Agent": agent})
    with closing(http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)) as connection:
        connection.request("POST", "/v1/responses", json.dumps(QUESTION | {"stream": True}), headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()


@pytest.mark.parametrize(("agent", "dialect"), USER_AGENTS.items())
def test_the_dialect_follows_the_client(demo_bridge, agent, dialect):
    answer, events = posted(demo_bridge.address, agent)
    assert (answer.status, answer.headers["x-bridge-dialect"]) == (200, dialect)
    assert ("event: response.done" in events) == (dialect == "bridge")
    assert "event: response.completed" in events


# --- priorities --------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def looks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "BETWEEN_LOOKS", 0)


@pytest.fixture
def store(tmp_path) -> ClientKeys:
    return ClientKeys(tmp_path)


@pytest.fixture
def ask(tmp_path):
    def ask(headers: dict[str, str], secret: str = "any", more: dict | None = None, **environ: str):
        app = create_app(load(environ={"BRIDGE_STATE_DIR": str(tmp_path), **environ}))
        sent = {**headers, "Authorization": f"Bearer {secret}"}
        return app.test_client().post("/v1/responses", json={**QUESTION, **(more or {})}, headers=sent)

    return ask


@pytest.mark.parametrize("name", ["bridge", "openai", "codex", " OpenAI "])
@pytest.mark.parametrize("headers", [CURL, SDK])
def test_the_dialect_header_has_the_highest_priority(ask, store, name, headers):
    secret = store.add("alice", Rules(dialect="codex"))
    answer = ask({**headers, "x-bridge-dialect": name}, secret, BRIDGE_RESPONSES__DIALECT="bridge")
    assert (answer.status_code, answer.headers["x-bridge-dialect"]) == (200, name.strip().lower())


@pytest.mark.parametrize("wrong", ["auto", "", "klingon", "x" * 1000])
def test_an_unknown_dialect_is_refused_with_the_header_named(ask, wrong):
    answer = ask({**SDK, "x-bridge-dialect": wrong})
    error = answer.json["error"]
    assert (answer.status_code, error["param"]) == (400, "x-bridge-dialect")
    assert error["message"].startswith("x-bridge-dialect: must be one of bridge, openai, codex, not ")
    assert len(error["message"]) < 200


def test_the_keys_dialect_overrides_the_marks(ask, store):
    secret = store.add("alice", Rules(dialect="openai"))
    assert ask(CURL, secret).headers["x-bridge-dialect"] == "openai"
    assert ask({"originator": "codex_exec"}, secret).headers["x-bridge-dialect"] == "openai"
    store.change("alice", lambda _: Rules(dialect="auto"))
    assert ask(CURL, secret).headers["x-bridge-dialect"] == "bridge"


def test_a_key_with_an_unknown_dialect_uses_the_marks(ask, store):
    secret = store.add("alice", Rules(dialect="of a later version"))
    assert ask(CURL, secret).headers["x-bridge-dialect"] == "bridge"


def test_the_setting_applies_to_clients_without_a_mark(ask):
    for setting, unmarked in (("auto", "openai"), ("codex", "codex"), ("bridge", "bridge")):
        chosen = {"BRIDGE_RESPONSES__DIALECT": setting}
        assert ask(SDK, **chosen).headers["x-bridge-dialect"] == unmarked
        assert ask({"originator": "codex_exec"}, **chosen).headers["x-bridge-dialect"] == "codex"
        assert ask(CURL, **chosen).headers["x-bridge-dialect"] == "bridge"


def test_marks_are_configurable(ask):
    environ = {"BRIDGE_RESPONSES__BRIDGE_MARKS": '["x-robot: yes"]', "BRIDGE_RESPONSES__CODEX_MARKS": "[]"}
    assert ask({**CURL, "X-Robot": "Yes"}, **environ).headers["x-bridge-dialect"] == "bridge"
    assert ask(CURL, **environ).headers["x-bridge-dialect"] == "openai"
    assert ask({"originator": "codex_exec"}, **environ).headers["x-bridge-dialect"] == "openai"


def test_a_background_answer_reports_its_dialect(ask):
    answer = ask(SDK, more={"background": True, "store": True})
    assert (answer.status_code, answer.headers["x-bridge-dialect"]) == (200, "openai")
