"""Several upstreams by name behind real gunicorn: routing, shares, fallbacks, cool-downs, lists, reports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests
from gunicorn_bridge import ROOT, Bridge, clean_environment, free_port, gunicorn_bridge
from scripted_gemini import CUT, Asked, Reply, ScriptedGemini, call_chunk, sse, text_chunk
from scripted_tokens import TokenServer, service_account
from waiting import eventually

from bridge.settings import load
from bridge.upstream.demo import DemoUpstream
from bridge.web.app import create_app

FLASH = "gemini-3.8-flash"
WORKERS = 2
KEYS = {
    "GEMINI_API_KEY": "AIzaCanary000000000000000000default",
    "ONE_KEY": "AIzaCanary0000000000000000000000one",
    "TWO_KEY": "AIzaCanary0000000000000000000000two",
}
ROWS = """
[[upstream]]
name = "one"
kind = "gemini"
base_url = "{one}"
api_key = "env:ONE_KEY"
models = ["shared-*", "cooling-*", "gone-*", "vectors"]

[[upstream]]
name = "two"
kind = "gemini"
base_url = "{two}"
api_key = "env:TWO_KEY"
models = ["shared-*", "cooling-*", "gone-*", "half-dead*"]
weight = 2

[[upstream]]
name = "dead"
kind = "gemini"
base_url = "{dead}"
api_key = "env:ONE_KEY"
models = ["half-dead*"]
weight = 1000

[[upstream]]
name = "vertex"
kind = "vertex"
base_url = "{vertex}"
project = "canary"
credentials = "{account}"
"""
MODELS = """
[[alias]]
match = ["friendly"]
model = "two:hidden-model"

[[model]]
match = ["gemini-3.6-flash", "gemini-3.9-flash"]
fallbacks = ["one:backup"]
"""
OVERLOADED = Reply([b'{"error": {"code": 503, "status": "UNAVAILABLE", "message": "Too busy."}}'], 503)
UNKNOWN = Reply([b'{"error": {"code": 404, "status": "NOT_FOUND", "message": "No such model."}}'], 404)


@dataclass
class Several:
    bridge: Bridge
    apis: dict[str, ScriptedGemini]
    environ: dict[str, str]

    def ask(self, model: str, text: str = "Hello", **more: Any) -> requests.Response:
        body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
        return requests.post(f"{self.bridge.address}/v1/chat/completions", json=body, timeout=60)

    def served_by(self, model: str, text: str = "Hello") -> str:
        answer = self.ask(model, text)
        assert answer.status_code == 200, answer.text
        return answer.headers["x-bridge-upstream"]

    def asked(self, name: str) -> list[Asked]:
        return self.apis[name].asked

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "import sys; from bridge.cli import main; sys.exit(main())", *words],
            cwd=ROOT,
            env=clean_environment() | self.environ | {"BRIDGE_STATE_DIR": str(self.bridge.state)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


def write_config(folder: Path, rows: str, models: str = "") -> Path:
    folder.mkdir()
    shutil.copy(ROOT / "config" / "default.toml", folder)
    (folder / "upstreams.toml").write_text(rows)
    head, mark, tail = (ROOT / "config" / "models.toml").read_text().partition("[[alias]]")
    (folder / "models.toml").write_text(f"{head}{models}\n{mark}{tail}")
    return folder


@pytest.fixture(scope="module")
def _several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    folder = tmp_path_factory.mktemp("several")
    apis = {name: ScriptedGemini() for name in ("default", "one", "two", "vertex")}
    tokens = TokenServer()
    account = folder / "account.json"
    account.write_bytes(orjson.dumps(service_account(tokens.address)))
    addresses = {name: api.address for name, api in apis.items()}
    rows = ROWS.format(**addresses, dead=f"http://127.0.0.1:{free_port()}", account=account)
    environ = {
        **KEYS,
        "GOOGLE_GEMINI_BASE_URL": apis["default"].address,
        "BRIDGE_CONFIG_DIR": str(write_config(folder / "config", rows, MODELS)),
        "BRIDGE_UPSTREAM__ATTEMPTS": "1",
        "BRIDGE_UPSTREAM__MODELS_TTL": "0",
        "BRIDGE_SERVER__WORKERS": str(WORKERS),
    }
    with gunicorn_bridge(**environ) as bridge:
        yield Several(bridge, apis, environ)
    for api in apis.values():
        api.close()
    tokens.close()


@pytest.fixture
def several(_several: Several) -> Several:
    for api in _several.apis.values():
        api.forget()
    return _several


# --- routing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "upstream", "sent"),
    [
        (FLASH, "default", FLASH),
        ("gpt-4o", "default", "gemini-pro-latest"),
        ("default:shared-a", "default", "shared-a"),
        ("one:anything", "one", "anything"),
        ("vertex:gemini-3.8-flash", "vertex", FLASH),
        ("friendly", "two", "hidden-model"),
        ("vectors", "one", "vectors"),
    ],
)
def test_a_request_goes_to_the_upstream_of_its_model(
    several: Several, model: str, upstream: str, sent: str
) -> None:
    answer = several.ask(model)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-bridge-upstream"] == upstream
    assert answer.headers["x-bridge-model"] == sent
    (asked,) = several.asked(upstream)
    assert f"/models/{sent}:streamGenerateContent" in asked.path
    assert sum(len(api.asked) for api in several.apis.values()) == 1


def test_a_stream_names_the_upstream_that_stood_in(several: Several) -> None:
    several.apis["default"].will_say(OVERLOADED)
    answer = several.ask("gemini-3.9-flash", stream=True)
    assert answer.headers["x-bridge-upstream"] == "one"
    assert answer.text.endswith("data: [DONE]\n\n")


def test_without_rows_no_answer_names_an_upstream(tmp_path: Path) -> None:
    app = create_app(load(ROOT / "config", {"BRIDGE_STATE_DIR": str(tmp_path)}), DemoUpstream(pace=0))
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}
    answer = app.test_client().post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    assert "x-bridge-upstream" not in answer.headers


def test_each_upstream_gets_its_own_key_only(several: Several) -> None:
    for model, upstream in ((FLASH, "default"), ("one:m", "one"), ("two:m", "two")):
        several.ask(model)
        own = KEYS["GEMINI_API_KEY" if upstream == "default" else f"{upstream.upper()}_KEY"]
        assert several.asked(upstream)[-1].headers["x-goog-api-key"] == own


def test_token_counts_and_embeddings_go_to_the_upstream_of_the_model(several: Several) -> None:
    vectors = Reply([b'{"embeddings": [{"values": [1.0]}]}'])
    several.apis["one"].will_say(Reply([b'{"totalTokens": 9}']), vectors)
    address = several.bridge.address
    body = {"model": "vectors", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    counted = requests.post(f"{address}/v1/messages/count_tokens", json=body, timeout=60)
    assert counted.json() == {"input_tokens": 9}, counted.text
    made = requests.post(f"{address}/v1/embeddings", json={"model": "vectors", "input": "Hi"}, timeout=60)
    assert made.status_code == 200, made.text
    assert made.headers["x-bridge-upstream"] == "one"
    methods = [each.path.rpartition(":")[2] for each in several.asked("one")]
    assert methods == ["countTokens", "batchEmbedContents"]


# --- sharing ------------------------------------------------------------------------------------------


def test_conversations_are_shared_and_each_stays_at_its_upstream(several: Several) -> None:
    texts = [f"Conversation {number}" for number in range(30)]
    first = {text: several.served_by("shared-a", text) for text in texts}
    assert set(first.values()) == {"one", "two"}
    assert {text: several.served_by("shared-a", text) for text in texts} == first


def test_an_overloaded_upstream_is_replaced_and_rests_for_this_model_only(several: Several) -> None:
    texts = [f"Conversation {number}" for number in range(30)]
    text = next(each for each in texts if several.served_by("shared-a", each) == "one")
    several.apis["one"].forget()
    several.apis["one"].will_answer(lambda asked: OVERLOADED if "cooling" in asked.path else _hello())
    assert [several.served_by("cooling-a", text) for _ in range(8)] == ["two"] * 8
    assert len(several.asked("one")) <= WORKERS  # a worker may not yet know of the cool-down
    assert several.served_by("shared-a", text) == "one"
    assert several.served_by("one:other", text) == "one"


def _hello() -> list[bytes]:
    return sse(text_chunk("Hello.", "STOP"))


def test_a_dead_upstream_is_replaced_and_then_skipped(several: Several) -> None:
    answers = [several.ask("half-dead", f"Conversation {number}") for number in range(8)]
    assert [answer.headers["x-bridge-upstream"] for answer in answers] == ["two"] * 8
    notes = [entry.get("notes", {}) for entry in several.bridge.requests(model="half-dead")]
    assert 1 <= sum("cooldown.unreachable" in each for each in notes) <= WORKERS, notes


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/messages/count_tokens"])
def test_vectors_and_counts_come_from_another_upstream_too(several: Several, path: str) -> None:
    several.apis["two"].will_answer(_vectors_or_count)
    given = (
        {"input": "Hello"} if "embeddings" in path else {"messages": [{"role": "user", "content": "Hello"}]}
    )
    for _ in range(6):
        body = {"model": f"half-dead-{len(path)}", **given}
        answer = requests.post(f"{several.bridge.address}{path}", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-bridge-upstream"] == "two"


def _vectors_or_count(asked: Asked) -> Reply:
    vectors = {"embeddings": [{"values": [0.5]}], "usageMetadata": {"promptTokenCount": 1}}
    return Reply([orjson.dumps({"totalTokens": 3} if "count" in asked.path else vectors)])


def test_a_model_that_one_of_two_lacks_is_served_by_the_other(several: Several) -> None:
    several.apis["two"].will_answer(lambda asked: UNKNOWN if "gone" in asked.path else _hello())
    texts = [f"Conversation {number}" for number in range(8)]
    assert {several.served_by("gone-a", text) for text in texts} == {"one"}
    assert len(several.asked("two")) <= WORKERS  # the bridge remembers it


def test_a_fallback_may_be_at_another_upstream(several: Several) -> None:
    several.apis["default"].will_say(OVERLOADED)
    answer = several.ask("gemini-3.6-flash")
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-bridge-upstream"] == "one"
    assert "/models/backup:" in several.asked("one")[0].path
    entry = several.bridge.request(model="gemini-3.6-flash")
    assert (entry["upstream"], entry["upstream_model"], entry["notes"]["fallback"]) == ("one", "backup", 1)


# --- signatures ---------------------------------------------------------------------------------------


def test_a_signature_stays_in_its_realm(several: Several) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    secret = "c2lnbmF0dXJlLW9mLWRlZmF1bHQtdXBzdHJlYW0tMDE="
    several.apis["default"].will_say(sse(call_chunk("look", {}, "c1", secret, "STOP")))
    said = several.ask(FLASH, tools=tools).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "a wall"}
    messages = [{"role": "user", "content": "Hello"}, said, result]
    for model, upstream in ((f"vertex:{FLASH}", "vertex"), (FLASH, "default")):
        assert several.ask(model, tools=tools, messages=messages).status_code == 200
        sent = json.dumps(several.asked(upstream)[-1].body)
        assert (secret in sent) == (upstream == "default")


# --- lists and reports --------------------------------------------------------------------------------


def test_the_models_of_all_upstreams_are_listed_although_one_hangs(several: Several) -> None:
    listed = {"supportedGenerationMethods": ["generateContent"]}
    several.apis["one"].will_list({"models": [{"name": "models/shared-a", **listed}]})
    names = ("shared-a", "hidden-model")
    several.apis["two"].will_list({"models": [{"name": f"models/{name}", **listed} for name in names]})
    several.apis["vertex"].will_list(Reply([30.0]))
    began = time.monotonic()
    answer = requests.get(f"{several.bridge.address}/v1/models", timeout=60)
    assert time.monotonic() - began < 5
    ids = [model["id"] for model in answer.json()["data"]]
    assert {FLASH, "shared-a", "two:hidden-model", "gpt-4o", "friendly"} <= set(ids)
    assert len(ids) == len(set(ids))


def test_metrics_and_usage_name_the_upstream(several: Several) -> None:
    several.ask("two:counted-model")
    metrics = requests.get(f"{several.bridge.address}/metrics", timeout=60).text
    row = 'gemini_bridge_upstream_requests_total{error="none",outcome="completed",upstream="two"}'
    assert row in metrics
    assert eventually(lambda: "two:counted-model" in several.command("usage", "--by", "model").stdout)


def test_the_command_lists_and_tests_upstreams(several: Several) -> None:
    said = several.command("upstream", "list", "--json")
    assert said.returncode == 0, said.stderr
    rows = {row["name"]: row for row in json.loads(said.stdout)}
    assert list(rows) == ["default", "one", "two", "dead", "vertex"]
    assert rows["default"]["healthy"]
    assert rows["two"]["weight"] == 2
    assert FLASH in rows["one"]["models"]
    assert not rows["dead"]["healthy"]
    assert "could not be reached" in rows["dead"]["error"]
    assert several.command("upstream", "test", "one").returncode == 0
    assert several.command("upstream", "test", "dead").returncode == 1
    missing = several.command("upstream", "test", "on")
    assert missing.returncode == 2
    assert "did you mean one?" in missing.stderr
    assert not any(key in said.stdout for key in KEYS.values())


def test_the_last_error_of_an_upstream_is_shown_even_if_another_one_answered(several: Several) -> None:
    texts = (f"Conversation {number}" for number in range(30))
    text = next(each for each in texts if several.served_by("shared-e", each) == "one")
    several.apis["one"].will_say(OVERLOADED)
    assert several.served_by("shared-e", text) == "two"
    rows = {row["name"]: row for row in json.loads(several.command("upstream", "list", "--json").stdout)}
    assert rows["one"]["last_error"]["error"] == "overloaded"
    assert rows["one"]["last_error"]["seconds_ago"] < 60
    assert rows["two"]["last_error"] is None
    metrics = requests.get(f"{several.bridge.address}/metrics", timeout=60).text
    assert 'gemini_bridge_upstream_errors_total{error="overloaded",upstream="one"}' in metrics
    assert 'upstream="two"' not in "".join(re.findall(r"upstream_errors_total{.*}", metrics))
    assert "overloaded, " in several.command("upstream", "test", "one").stdout
    checks = json.loads(several.command("doctor", "--json").stdout)
    (found,) = [check for check in checks if check["check"] == "upstreams"]
    assert "one: 2 models (last error: overloaded, " in found["says"]


def test_an_error_in_the_middle_of_an_answer_is_a_last_error_too(several: Several) -> None:
    several.apis["vertex"].will_say([*sse(text_chunk("Half")), CUT])
    several.ask("vertex:gemini-3.8-flash", stream=True)
    refused = b'{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "No."}}'
    several.apis["vertex"].will_say(Reply([refused], 400))
    assert several.ask("vertex:gemini-3.8-flash").status_code == 400
    said = several.command("upstream", "list", "--json").stdout
    (row,) = (row for row in json.loads(said) if row["name"] == "vertex")
    assert row["last_error"]["error"] == "truncated"


def test_doctor_and_check_name_each_upstream(several: Several) -> None:
    checked = several.command("check")
    assert checked.returncode == 0, checked.stderr
    assert "dead: http://127.0.0.1" in checked.stdout
    rows = json.loads(several.command("doctor", "--json").stdout)
    (found,) = [row for row in rows if row["check"] == "upstreams"]
    assert found["level"] == "red"
    assert "one: 2 models" in found["says"]
    assert "dead: Gemini could not be reached" in found["says"]


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        (
            '[[upstream]]\nname = "x"\nkind = "gemni"\n',
            ["upstreams.toml: [[upstream]] 1: kind", "gemni", "gemini?"],
        ),
        ('[[upstream]]\nname = "x"\nkind = "gemini"\n', ["[[upstream]] 1", "no API key", "set api_key"]),
        (
            '[[upstream]]\nname = "x"\nkind = "gemini"\napi_key = "env:ONE_KEY"\nca = "/no/such"\n',
            ["[[upstream]] 1", "ca /no/such does not exist"],
        ),
    ],
)
def test_an_upstream_that_cannot_be_used_stops_the_start(tmp_path: Path, rows: str, parts: list[str]) -> None:
    environ = {**KEYS, "BRIDGE_CONFIG_DIR": str(write_config(tmp_path / "config", rows))}
    with pytest.raises(AssertionError) as stopped, gunicorn_bridge(**environ):
        pass
    assert [part for part in parts if part not in str(stopped.value)] == []
