"""The request cache: off unless switched on; an equal request gets the same answer in every protocol."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from client_keys import ClientKeys
from flask.testing import FlaskClient
from gunicorn_bridge import ROOT
from scripted_chat import end as chat_end
from scripted_chat import sse as chat_sse
from scripted_chat import text as chat_text
from scripted_gemini import CUT, Reply, ScriptedGemini, call_chunk, sse, text_chunk
from waiting import eventually
from werkzeug.test import TestResponse

from bridge.access import key_cache
from bridge.cli import main
from bridge.settings import load
from bridge.state.key_store import Rules
from bridge.web.app import create_app

MODEL = "gemini-3.8-flash"
HELLO = [{"role": "user", "content": "Hello"}]
USED = {"promptTokenCount": 50, "candidatesTokenCount": 20, "totalTokenCount": 70}
ANSWER = [text_chunk("Good "), text_chunk("day.", "STOP", **USED)]
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ON = {"x-bridge-cache": "on"}

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HELLO}),
    "responses": ("/v1/responses", {"input": [{**HELLO[0], "type": "message"}]}),
    "messages": ("/v1/messages", {"messages": HELLO, "max_tokens": 1000}),
    "native": (
        f"/v1beta/models/{MODEL}:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    ),
}
EACH = pytest.mark.parametrize("name", CALLS)

Ask = Callable[..., TestResponse]
Make = Callable[..., FlaskClient]


@pytest.fixture
def make(tmp_path: Path, gemini: ScriptedGemini, canary_key: str, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(key_cache, "BETWEEN_LOOKS", 0)

    def made(model_rule: str = "", rows: str = "", secrets: str = "off", **settings: str) -> FlaskClient:
        config = tmp_path / "config"
        config.mkdir(exist_ok=True)
        for file in (ROOT / "config").glob("*.toml"):
            (config / file.name).write_bytes(file.read_bytes())
        (config / "upstreams.toml").write_text(rows)
        guards = (config / "guards.toml").read_text()
        (config / "guards.toml").write_text(guards.replace('secrets = "off"', f'secrets = "{secrets}"'))
        if model_rule:
            models = config / "models.toml"
            row = f'[[model]]\nmatch = ["{MODEL}"]\ncache = "{model_rule}"\n'
            models.write_text(models.read_text().replace("[[model]]", f"{row}\n[[model]]", 1))
        given = {
            "BRIDGE_STATE_DIR": str(tmp_path / "state"),
            "BRIDGE_CONFIG_DIR": str(config),
            "GEMINI_API_KEY": canary_key,
            "GOOGLE_GEMINI_BASE_URL": gemini.address,
            "BRIDGE_UPSTREAM__ATTEMPTS": "1",
            **settings,
        }
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        return create_app(load(config, given)).test_client()

    return made


def ask(client: FlaskClient, name: str, headers: dict[str, str] | None = None, **more: Any) -> TestResponse:
    path, body = CALLS[name]
    answer = client.post(path, json={"model": MODEL, **body, **more} | more, headers=headers or {})
    answer.get_data()
    assert answer.status_code == 200, answer.get_data()
    return answer


def posted(gemini: ScriptedGemini) -> int:
    return len(gemini.asked)


def will_answer(gemini: ScriptedGemini, times: int = 9) -> None:
    gemini.will_say(*([sse(*ANSWER)] * times))


def shape(value: Any) -> Any:
    """The body without ids and times, which differ between two answers."""
    if isinstance(value, dict):
        hidden = ("id", "created", "created_at", "completed_at", "responseId")
        return {name: shape(each) for name, each in value.items() if name not in hidden}
    return list(map(shape, value)) if isinstance(value, list) else value


@EACH
def test_without_a_switch_nothing_is_cached(make, gemini, name):
    client = make()
    will_answer(gemini)
    answers = [ask(client, name) for _ in range(2)]
    assert posted(gemini) == 2
    assert all("x-bridge-cache" not in answer.headers for answer in answers)


@EACH
def test_a_hit_equals_a_miss_except_ids_and_times(make, gemini, name):
    client = make()
    will_answer(gemini)
    first, second = (ask(client, name, ON) for _ in range(2))
    assert [each.headers["x-bridge-cache"] for each in (first, second)] == ["miss", "hit"]
    assert posted(gemini) == 1
    assert shape(first.json) == shape(second.json)
    assert second.headers["age"] == "0"
    if name != "native":
        assert first.json["id"] != second.json["id"]


@EACH
@pytest.mark.parametrize("first_streamed", [False, True])
def test_a_streamed_and_a_whole_answer_share_an_entry(make, gemini, name, first_streamed):
    client = make()
    will_answer(gemini)

    def asked(streamed: bool) -> TestResponse:
        if name == "native":
            path, body = CALLS[name]
            path = path.replace("generateContent", "streamGenerateContent") if streamed else path
            answer = client.post(path, json=body, headers=ON)
            answer.get_data()
            return answer
        return ask(client, name, ON, stream=streamed)

    asked(first_streamed)
    second = asked(not first_streamed)
    assert second.headers["x-bridge-cache"] == "hit"
    assert posted(gemini) == 1
    assert b"Good " in second.data


def test_protocols_with_equal_requests_share_an_entry(make, gemini):
    client = make()
    will_answer(gemini)
    same = {"responses": {"max_output_tokens": 1000}, "messages": {}}
    found = [ask(client, name, ON, **more).headers["x-bridge-cache"] for name, more in same.items()]
    assert found == ["miss", "hit"]


@pytest.mark.parametrize(
    "more",
    [
        {"temperature": 0.1},
        {"reasoning_effort": "low"},
        {"max_tokens": 5},
        {"response_format": {"type": "json_object"}},
        {"messages": [*HELLO, {"role": "user", "content": "x"}]},
        {"seed": 3},
        {"stop": ["x"]},
    ],
    ids=str,
)
def test_a_different_request_is_asked(make, gemini, more):
    client = make()
    will_answer(gemini)
    ask(client, "chat", ON)
    assert ask(client, "chat", ON, **more).headers["x-bridge-cache"] == "miss"


@pytest.mark.parametrize("more", [{"tools": [FUNCTION]}, {"n": 2}], ids=str)
def test_requests_that_may_want_another_answer_are_not_cached(make, gemini, more):
    client = make()
    will_answer(gemini)
    answers = [ask(client, "chat", ON, **more) for _ in range(2)]
    assert [each.headers["x-bridge-cache"] for each in answers] == ["off", "off"]
    assert posted(gemini) == 2


@pytest.mark.parametrize(
    "chunks",
    [
        [text_chunk("Cut", "MAX_TOKENS")],
        [text_chunk("Unsafe", "SAFETY")],
        [call_chunk("look", {}, "1", finish="STOP")],
    ],
    ids=["truncated", "blocked", "call"],
)
def test_an_answer_that_did_not_end_well_is_not_kept(make, gemini, chunks):
    client = make()
    gemini.will_say(sse(*chunks), sse(*ANSWER))
    ask(client, "chat", ON)
    assert ask(client, "chat", ON).headers["x-bridge-cache"] == "miss"


def test_a_broken_answer_is_not_kept(make, gemini):
    client = make()
    gemini.will_say([*sse(text_chunk("Broken")), CUT], sse(*ANSWER))
    path, body = CALLS["chat"]
    client.post(path, json={"model": MODEL, **body, "stream": True}, headers=ON).get_data()
    assert b"Good " in ask(client, "chat", ON).data


def test_a_retry_asks_again_although_the_answer_before_was_kept(make, gemini):
    row = f'[[upstream]]\nname = "cellar"\nkind = "openai"\nbase_url = "{gemini.address}/v1"\n'
    client = make(rows=row, BRIDGE_UPSTREAM__ATTEMPTS="2")
    thoughts, answer = "<think>Hm.</think>", "Good day."
    gemini.will_say(*[Reply([chat_sse(chat_text(text), chat_end("stop"))]) for text in (thoughts, answer)])
    found = [ask(client, "chat", ON, model="cellar:qwen") for _ in range(2)]
    assert [each.json["choices"][0]["message"]["content"] for each in found] == [answer] * 2
    assert [each.headers["x-bridge-cache"] for each in found] == ["miss", "hit"]
    assert posted(gemini) == 2


SECRET = "AIza" + "0123456789abcdefghijklmnopqrstuvwxy"


def test_an_answer_to_a_prompt_that_a_guard_changed_is_not_kept(make, gemini):
    client = make(secrets="enforce")
    will_answer(gemini)
    for text, expected in ((f"My key is {SECRET}", ["off", "off"]), ("My key", ["miss", "hit"])):
        messages = [{"role": "user", "content": text}]
        found = [ask(client, "chat", ON, messages=messages) for _ in range(2)]
        assert [each.headers["x-bridge-cache"] for each in found] == expected
    gemini.forget()
    gemini.will_say(*[Reply([b'{"embeddings": [{"values": [0.5]}]}'])] * 2)
    body = {"model": "gemini-embedding-2", "input": SECRET}
    found = [client.post("/v1/embeddings", json=body, headers=ON) for _ in range(2)]
    assert [(each.status_code, each.headers["x-bridge-cache"]) for each in found] == [(200, "off")] * 2


def test_upstreams_that_ask_one_server_in_different_ways_share_no_entry(make, gemini):
    row = f'[[upstream]]\nkind = "openai"\ndialect = "vllm"\nbase_url = "{gemini.address}/v1"\n'
    rows = "".join(f"{row}name = '{name}'\n{more}\n" for name, more in SAME_SERVER.items())
    client = make(rows=rows)
    gemini.will_say(*[Reply([chat_sse(chat_text("Hi"), chat_end("stop"))])] * 9)
    answers = [ask(client, "chat", ON, model=f"{name}:qwen") for name in SAME_SERVER]
    found = [answer.headers["x-bridge-cache"] for answer in answers]
    assert found == ["miss", "hit", "miss"]
    assert posted(gemini) == 2


SAME_SERVER = {"one": "", "same": "weight = 2", "quiet": 'think = "off"'}


def test_refresh_asks_again_and_replaces_the_entry(make, gemini):
    client = make()
    gemini.will_say(sse(*ANSWER), sse(text_chunk("Newer.", "STOP")))
    ask(client, "chat", ON)
    assert ask(client, "chat", {"x-bridge-cache": "refresh"}).headers["x-bridge-cache"] == "refresh"
    third = ask(client, "chat", ON)
    assert third.headers["x-bridge-cache"] == "hit"
    assert b"Newer." in third.data


def test_an_unknown_wish_is_refused_with_the_name_of_the_header(make):
    path, body = CALLS["chat"]
    answer = make().post(path, json={"model": MODEL, **body}, headers={"x-bridge-cache": "yes"})
    assert answer.status_code == 400
    assert "x-bridge-cache" in answer.json["error"]["message"]


# --- rules -------------------------------------------------------------------------------------------


def key_headers(tmp_path: Path, rule: str, name: str = "ann") -> dict[str, str]:
    secret = ClientKeys(tmp_path / "state").add(name, Rules(cache=rule))
    return {"Authorization": f"Bearer {secret}"}


@pytest.mark.parametrize(
    ("of_key", "of_model", "headers", "expected"),
    [
        ("on", "", {}, "hit"),
        ("", "on", {}, "hit"),
        ("off", "on", {}, "off"),
        ("on", "off", {}, "off"),
        ("off", "", ON, "off"),
        ("", "off", ON, "off"),
        ("on", "", {"x-bridge-cache": "off"}, "off"),
        ("on", "", {"Cache-Control": "no-cache"}, "refresh"),
        ("on", "", {"Cache-Control": "no-store"}, "off"),
        ("on", "", {"Cache-Control": "max-age=100"}, "hit"),
        ("", "", {"Cache-Control": "max-age=100"}, None),
    ],
)
def test_a_rule_off_wins_then_the_request_then_a_rule_on(
    make, gemini, tmp_path, of_key, of_model, headers, expected
):
    client = make(of_model)
    will_answer(gemini)
    key = key_headers(tmp_path, of_key)
    ask(client, "chat", {**key, **headers})
    assert ask(client, "chat", {**key, **headers}).headers.get("x-bridge-cache") == expected


@pytest.mark.parametrize(("scope", "expected"), [("key", "miss"), ("all", "hit")])
def test_the_scope_says_who_finds_an_entry(make, gemini, tmp_path, scope, expected):
    client = make(BRIDGE_CACHE__SCOPE=scope)
    will_answer(gemini)
    ask(client, "chat", {**key_headers(tmp_path, "on"), **ON})
    other = key_headers(tmp_path, "on", "bob")
    assert ask(client, "chat", {**other, **ON}).headers["x-bridge-cache"] == expected


def test_an_expired_entry_is_not_used(make, gemini, monkeypatch):
    client = make(BRIDGE_CACHE__LIFETIME="1")
    will_answer(gemini)
    ask(client, "chat", ON)
    threading.Event().wait(1.1)
    assert ask(client, "chat", ON).headers["x-bridge-cache"] == "miss"


# --- what a hit costs --------------------------------------------------------------------------------


def test_a_hit_costs_no_tokens_and_is_in_the_log_as_a_hit(make, gemini, caplog):
    client = make()
    will_answer(gemini)
    with caplog.at_level("INFO", "bridge.access"):
        first, second = (ask(client, "chat", ON) for _ in range(2))
    lines = [each for each in caplog.records if each.name == "bridge.access"]
    assert [line.cache for line in lines] == ["miss", "hit"]
    assert [getattr(line, "input_tokens", 0) for line in lines] == [50, 0]
    assert second.json["usage"] == first.json["usage"]


def metric(client: FlaskClient, name: str) -> float:
    found = re.search(rf"(?m)^gemini_bridge_{re.escape(name)} (.+)$", client.get("/metrics").text)
    return float(found[1]) if found else 0.0


def test_hits_and_what_they_saved_are_in_metrics_and_usage(make, gemini, capsys):
    client = make()
    will_answer(gemini)
    names = ['request_cache_total{result="hit"}', f'saved_cost_usd_total{{model="{MODEL}"}}']
    before = [metric(client, name) for name in names]
    for headers in (ON, ON, ON, {"x-bridge-cache": "off"}):
        ask(client, "chat", headers)
    hits, saved = (metric(client, name) - old for name, old in zip(names, before, strict=True))

    def total() -> dict[str, Any]:
        main(["usage", "--json"])
        found: dict[str, Any] = orjson.loads(capsys.readouterr().out)["total"]
        return found

    assert eventually(lambda: total()["requests"] == 4, 10)
    told = total()
    assert (told["from_cache"], hits) == (2, 2)
    assert told["saved"] == pytest.approx(told["cost"])
    assert saved == pytest.approx(told["saved"])
    assert saved > 0


# --- equal requests at the same time -----------------------------------------------------------------


def test_an_equal_request_waits_for_the_running_one(make, gemini):
    client = make()
    begun, go_on = threading.Event(), threading.Event()
    gemini.will_say([begun.set, lambda: go_on.wait(10), *sse(*ANSWER)])
    answers: list[TestResponse] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(client.application.test_client(), "chat", ON)))
        for _ in range(4)
    ]
    threads[0].start()
    assert begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert sorted(answer.headers["x-bridge-cache"] for answer in answers) == ["hit"] * 3 + ["miss"]
    assert posted(gemini) == 1


def test_followers_send_their_own_request_when_the_first_one_fails(make, gemini):
    client = make()
    begun, go_on = threading.Event(), threading.Event()
    gemini.will_say(Reply([begun.set, lambda: go_on.wait(10), CUT]), *([sse(*ANSWER)] * 3))
    statuses: list[int] = []

    def post() -> None:
        path, body = CALLS["chat"]
        answer = client.application.test_client().post(path, json={"model": MODEL, **body}, headers=ON)
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=post) for _ in range(3)]
    threads[0].start()
    assert begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert sorted(statuses) == [200, 200, 502]


# --- other calls -------------------------------------------------------------------------------------


def test_token_counts_are_cached(make, gemini):
    client = make()
    gemini.will_say(Reply([b'{"totalTokens": 7}']))
    body = {"model": MODEL, "messages": HELLO}
    counts = [client.post("/v1/messages/count_tokens", json=body, headers=ON) for _ in range(2)]
    assert [(each.json["input_tokens"], each.headers["x-bridge-cache"]) for each in counts] == [
        (7, "miss"),
        (7, "hit"),
    ]


def test_embeddings_are_cached_and_cost_nothing_the_second_time(make, gemini, caplog):
    client = make()
    vector = {"embedding": {"values": [0.5]}, "usageMetadata": {"promptTokenCount": 9}}
    gemini.will_say(Reply([orjson.dumps({"embeddings": [vector["embedding"]], **vector})]))
    body = {"model": "gemini-embedding-2", "input": "Hello"}
    with caplog.at_level("INFO", "bridge.access"):
        first, second = (client.post("/v1/embeddings", json=body, headers=ON) for _ in range(2))
    assert (first.status_code, second.headers["x-bridge-cache"]) == (200, "hit")
    assert first.json == second.json
    lines = [each for each in caplog.records if each.name == "bridge.access"]
    assert [getattr(line, "input_tokens", 0) for line in lines] == [9, 0]


def test_equal_calls_at_the_same_time_ask_once(make, gemini):
    client = make()
    begun, go_on = threading.Event(), threading.Event()
    gemini.will_say(Reply([begun.set, lambda: go_on.wait(10), b'{"totalTokens": 7}']))
    body = {"model": MODEL, "messages": HELLO}
    said: list[str] = []

    def count() -> None:
        counter = client.application.test_client()
        said.append(
            counter.post("/v1/messages/count_tokens", json=body, headers=ON).headers["x-bridge-cache"]
        )

    threads = [threading.Thread(target=count) for _ in range(4)]
    threads[0].start()
    assert begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    time.sleep(0.3)  # the others are waiting
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert sorted(said) == ["hit"] * 3 + ["miss"]
    assert posted(gemini) == 1


# --- the command -------------------------------------------------------------------------------------


def test_the_command_clears_the_entries_of_one_key_or_all(make, gemini, tmp_path, capsys):
    client = make()
    will_answer(gemini)
    for name in ("ann", "bob", "eve"):
        ask(client, "chat", {**key_headers(tmp_path, "on", name), **ON})
    assert main(["cache", "clear", "--key", "ann"]) == 0
    assert main(["cache", "clear"]) == 0
    assert main(["cache", "clear", "--key", "nobody"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "1 cached answer deleted.\n2 cached answers deleted.\n"
    assert "nobody" in printed.err
