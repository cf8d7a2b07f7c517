"""Keys and limits in the web application, in memory: every protocol's envelope and headers."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from client_keys import KEYS_FILE, ClientKeys
from scripted_gemini import text_chunk
from waiting import eventually
from werkzeug.test import EnvironBuilder, run_wsgi_app

from bridge.access import key_cache as ring_module
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.gemini.wire import chunk_from_json
from bridge.observe.logs import JsonFormatter
from bridge.settings import load
from bridge.settings.limits import Limits
from bridge.state.key_store import Rules
from bridge.state.stores import open_stores
from bridge.state.usage_store import RefusalSum, UsageQuery
from bridge.upstream.base import ChunkStream, Upstream
from bridge.web.app import create_app

CHAT = ("/v1/chat/completions", {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]})
RESPONSES = ("/v1/responses", {"model": "gpt-5", "input": "Hello"})
COMPLETIONS = ("/v1/completions", {"model": "gpt-5", "prompt": "Hello"})
MESSAGES = (
    "/v1/messages",
    {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]},
)
COUNT = ("/v1/messages/count_tokens", {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]})
TODAY = datetime.now(UTC).date()
HELLO = {"role": "user", "parts": [{"text": "Hello"}]}
NATIVE = ("/v1beta/models/gpt-5:generateContent", {"contents": [HELLO]})
EACH_DOOR = pytest.mark.parametrize(
    "call",
    [CHAT, RESPONSES, MESSAGES, NATIVE, COMPLETIONS],
    ids=["chat", "responses", "messages", "native", "completions"],
)
EACH_PROTOCOL = pytest.mark.parametrize(
    "call",
    [CHAT, RESPONSES, MESSAGES, COMPLETIONS],
    ids=["chat", "responses", "messages", "completions"],
)


class Answers(ChunkStream):
    def __iter__(self):
        yield [chunk_from_json(text_chunk("Hello.", "STOP", totalTokenCount=100))]

    def close(self) -> None:
        pass


class Willing(Upstream):
    def __init__(self) -> None:
        self.asked = 0

    def stream(self, request: GenerateRequest) -> ChunkStream:
        self.asked += 1
        return Answers()

    def count_tokens(self, request: GenerateRequest) -> int:
        self.asked += 1
        return 42

    def unary_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        self.asked += 1
        return {"embedding": {"values": [1]}}

    def models(self) -> list[JsonObject]:
        return [{"name": "models/gemini-3.1-pro-preview"}, {"name": "models/gemini-3.8-flash"}]


@pytest.fixture(autouse=True)
def looks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "BETWEEN_LOOKS", 0)


@pytest.fixture
def store(tmp_path) -> ClientKeys:
    return ClientKeys(tmp_path)


@pytest.fixture
def upstream() -> Willing:
    return Willing()


@pytest.fixture
def make_client(tmp_path, upstream):
    def make(**environ: str):
        settings = load(environ={"BRIDGE_STATE_DIR": str(tmp_path), **environ})
        return create_app(settings, upstream).test_client()

    return make


@pytest.fixture
def client(make_client):
    return make_client()


def post(client, call, secret: str | None = None, **options):
    path, body = call
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return client.post(path, json={**body, **options.pop("more", {})}, headers=headers, **options)


# --- authentication ----------------------------------------------------------------------------------


def test_without_defined_keys_all_requests_are_served(client) -> None:
    assert post(client, CHAT).status_code == 200
    assert post(client, CHAT, "any").status_code == 200


@EACH_DOOR
@pytest.mark.parametrize(
    "options",
    [
        lambda secret: {"headers": {"Authorization": f"Bearer {secret}"}},
        lambda secret: {"headers": {"Authorization": f"bearer  {secret} "}},
        lambda secret: {"headers": {"Authorization": secret}},
        lambda secret: {"headers": {"X-Api-Key": secret}},
        lambda secret: {"headers": {"x-goog-api-key": secret}},
        lambda secret: {"query_string": {"key": secret}},
        lambda secret: {"headers": {"Authorization": "Basic cHJveHk6cHJveHk=", "x-api-key": secret}},
    ],
)
def test_a_key_is_read_from_every_vendors_header(client, store, call, options) -> None:
    secret = store.add("alice", Rules())
    path, body = call
    assert client.post(path, json=body, **options(secret)).status_code == 200
    assert client.post(path, json=body, **options(secret[:-1])).status_code == 401


def visible_parts(answer) -> tuple[object, ...]:
    """Return all parts of the response that a client can see, except the request id."""
    headers = {name: value for name, value in answer.headers.items() if "request-id" not in name.lower()}
    return answer.status_code, headers, answer.text.replace(answer.headers["X-Request-Id"], "ID")


WRONG = {
    "missing": None,
    "wrong": "any",
    "well formed": "gbk_LIkh9iTMd4E3Wyc6U2LNzOjJC7oK5I0G4ETPKK",
    "another vendor's": "sk-proj-0123456789abcdef",
    "SQL": "' OR 1=1 --",
    "more SQL": '"; DROP TABLE key; --',
    "a like": "gbk_%",
    "not ASCII": "schlüssel",
    "very long": "g" * 7000,
    "a control sign": "a\x0bb",
    "a NUL": "gbk_\x00",
    "braces": "{{7*7}}${jndi:ldap://x}",
}


@EACH_DOOR
def test_every_wrong_key_gets_the_same_response(client, store, upstream, call) -> None:
    refused = {name: store.add(name, Rules()) for name in ("revoked", "expired", "rotated", "elsewhere")}
    store.revoke("revoked")
    store.change("expired", lambda rules: replace(rules, expires=time.time() - 1))
    store.rotate("rotated", 0)
    store.change("elsewhere", lambda rules: replace(rules, networks=("8.8.8.8",)))
    answers = [visible_parts(post(client, call, secret)) for secret in (*WRONG.values(), *refused.values())]
    assert all(answer == answers[0] for answer in answers)
    status, headers, text = answers[0]
    assert (status, headers["WWW-Authenticate"], headers["X-Should-Retry"]) == (401, "Bearer", "false")
    for word in ("revoked", "expired", "rotated", "elsewhere", "alice"):
        assert word not in text
    assert upstream.asked == 0


def test_each_protocol_refuses_in_its_own_envelope(client, store) -> None:
    store.add("alice", Rules())
    for call in (CHAT, RESPONSES):
        error = post(client, call).json["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
    answer = post(client, MESSAGES).json
    assert (answer["type"], answer["error"]["type"]) == ("error", "authentication_error")
    assert answer["request_id"].startswith("req_")
    error = post(client, NATIVE).json["error"]
    assert (error["code"], error["status"]) == (401, "UNAUTHENTICATED")
    assert error["details"][0]["reason"] == "API_KEY_INVALID"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/", 200),
        ("GET", "/v1/models", 401),
        ("GET", "/v1/models/gpt-5", 401),
        ("GET", "/v1/responses/resp_1", 401),
        ("DELETE", "/v1/responses/resp_1", 401),
        ("POST", "/v1/responses/resp_1/cancel", 401),
        ("GET", "/v1/responses/resp_1/input_items", 401),
        ("POST", "/v1/messages/count_tokens", 401),
        ("POST", "/v1/completions", 401),
        ("POST", "/v1/embeddings", 401),
        ("GET", "/v1beta/models", 401),
        ("GET", "/v1beta/models/gpt-5", 401),
        ("POST", "/v1beta/models/gpt-5:streamGenerateContent", 401),
        ("POST", "/v1/models/gpt-5:generateContent", 401),
        ("POST", "/v1beta/models/gpt-5:countTokens", 401),
        ("POST", "/v1beta/models/gpt-5:embedContent", 401),
        ("POST", "/v1beta/models/gpt-5:nothing", 401),
        ("GET", "/v1/nothing", 401),
        ("GET", "/v1/chat/completions", 401),
        ("OPTIONS", "/v1/chat/completions", 401),
        ("POST", "/healthz/../v1/chat/completions", 401),
        ("POST", "//healthz", 401),
        ("POST", "/healthz%2f..%2fv1%2fchat/completions", 401),
    ],
)
def test_only_health_routes_are_open(client, store, method, path, status) -> None:
    store.add("alice", Rules())
    assert client.open(path, method=method).status_code == status


def test_every_route_but_health_and_the_front_page_needs_a_key(client, store) -> None:
    store.add("alice", Rules())
    for rule in client.application.url_map.iter_rules():
        path = "".join("x" if is_dynamic else part for is_dynamic, part in rule._trace).partition("|")[2]
        method = next(iter(rule.methods - {"HEAD", "OPTIONS"}))
        is_open = rule.endpoint.startswith(("health.", "front.", "metrics."))
        is_form = rule.endpoint.startswith("account_page.sign")  # refused, since no page sent it
        wanted = 200 if is_open else 403 if is_form else 401
        assert client.open(path, method=method).status_code == wanted, path


def test_a_wrong_key_is_refused_before_the_body_is_read(client, store) -> None:
    class Untouchable:
        def read(self, *_: object) -> bytes:
            raise AssertionError("the body was read")

        readline = read

    store.add("alice", Rules())
    environ = EnvironBuilder(CHAT[0], method="POST", json=CHAT[1]).get_environ()
    _, status, _ = run_wsgi_app(client.application, {**environ, "wsgi.input": Untouchable()})
    assert status == "401 UNAUTHORIZED"


def test_the_log_says_whose_key_it_was_and_what_was_wrong(client, store, caplog) -> None:
    caplog.set_level(logging.INFO, "bridge.access")
    secret = store.add("alice", Rules())
    post(client, CHAT, secret)
    post(client, CHAT, secret, more={"stream": True}).close()
    post(client, CHAT, "typo")
    store.revoke("alice")
    post(client, CHAT, secret)
    lines = [record for record in caplog.records if record.name == "bridge.access"]
    assert [getattr(line, "key", None) for line in lines] == ["alice", "alice", None, "alice"]
    assert [getattr(line, "notes", None) for line in lines[2:]] == [{"key_malformed": 1}, {"key_revoked": 1}]
    assert secret not in caplog.text


def test_a_key_in_a_log_line_is_masked(store) -> None:
    secret = store.add("alice", Rules())
    for text in (secret, f"Bearer {secret}", f"/v1/models?key={secret}&x=1", f'{{"a":"{secret}"}}'):
        line = JsonFormatter().format(
            logging.makeLogRecord({"msg": "found %s", "args": (text,), "extra": text})
        )
        assert secret[:20] not in line
        assert "[masked]" in line


def test_an_unreadable_key_store_is_a_503_with_that_reason(client, store, tmp_path) -> None:
    (tmp_path / KEYS_FILE).write_bytes(b"This is no database. " * 100)
    answer = post(client, CHAT, "any")
    assert (answer.status_code, answer.json["error"]["type"]) == (503, "server_error")
    assert "cannot read its keys" in answer.json["error"]["message"]
    assert post(client, MESSAGES, "any").status_code == 529
    assert client.get("/healthz").status_code == 200


# --- models ------------------------------------------------------------------------------------------


@EACH_PROTOCOL
def test_a_model_that_a_key_may_not_use_is_refused_and_those_it_may_are_named(
    client, store, upstream, call
) -> None:
    secret = store.add("alice", Rules(models=("gemini-*flash*", "haiku")))
    answer = post(client, call, secret)
    error = answer.json["error"]
    refused = 400 if call is MESSAGES else 403
    assert answer.status_code == refused
    assert repr(call[1]["model"]) in error["message"]
    assert "gemini-*flash*, haiku" in error["message"]
    assert error["type"] == "invalid_request_error"
    assert answer.headers["X-Should-Retry"] == "false"
    assert upstream.asked == 0
    for model in ("gemini-3.8-flash", "gpt-5-mini", "haiku", "models/gemini-3.8-flash"):
        assert post(client, call, secret, more={"model": model}).status_code == 200
    assert post(client, call, secret, more={"stream": True}).status_code == refused


@pytest.mark.parametrize("name", ["gemini-4-argon", "gpt-5"])
@pytest.mark.parametrize("written", ["{}[1m]", "claude/{}", "claude/{}[1m]", "models/claude/{}[1M]"])
def test_model_name_suffixes_do_not_change_what_a_key_allows(client, store, upstream, name, written) -> None:
    asked = {"model": written.format(name)}
    for models in (("gemini-3.8-flash",), ("claude*",), ("*[1m]",)):
        secret = store.add(f"not-{len(models[0])}", Rules(models=models))
        assert post(client, MESSAGES, secret, more=asked).status_code == 400
        assert post(client, CHAT, secret, more=asked).status_code == 403
    assert upstream.asked == 0
    secret = store.add("allowed", Rules(models=(name,)))
    answer = post(client, MESSAGES, secret, more=asked)
    assert (answer.status_code, answer.json["model"]) == (200, asked["model"]), "echoed as it was written"


@pytest.mark.parametrize(
    "method", ["generateContent", "streamGenerateContent", "countTokens", "embedContent"]
)
def test_the_models_of_a_key_apply_to_the_native_protocol(client, store, upstream, method) -> None:
    secret = store.add("alice", Rules(models=("gemini-*flash*",)))
    body = {"content": HELLO} if method == "embedContent" else NATIVE[1]
    answer = post(client, (f"/v1beta/models/gpt-5:{method}", body), secret)
    assert (answer.status_code, answer.json["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert upstream.asked == 0
    assert post(client, (f"/v1/models/haiku:{method}", body), secret).status_code == 200
    listed = client.get("/v1beta/models", headers={"x-goog-api-key": secret}).json["models"]
    assert "models/gemini-3.8-flash" in [model["name"] for model in listed]
    assert "models/gpt-5" not in [model["name"] for model in listed]


def test_a_reached_limit_has_googles_envelope(client, store) -> None:
    secret = limited(store, requests_per_minute=1)
    assert post(client, NATIVE, secret).status_code == 200
    answer = post(client, NATIVE, secret)
    error = answer.json["error"]
    assert (answer.status_code, error["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert error["details"][0] == {
        "@type": "type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay": f"{answer.headers['Retry-After']}s",
    }


def test_token_counting_is_limited_to_the_keys_models(client, store, upstream) -> None:
    secret = store.add("alice", Rules(models=("gemini-*flash*",)))
    assert post(client, COUNT, secret).status_code == 400
    assert upstream.asked == 0
    assert post(client, COUNT, secret, more={"model": "haiku"}).json == {"input_tokens": 42}


def test_only_the_keys_models_are_listed(client, store) -> None:
    headers = {
        "x-api-key": store.add(
            "alice", Rules(models=("gemini-3.1-pro-preview", "gemini-pro-latest", "haiku"))
        )
    }
    listed = [model["id"] for model in client.get("/v1/models", headers=headers).json["data"]]
    assert "gemini-3.1-pro-preview" in listed
    assert "gpt-5" in listed, "it means one that may be used"
    assert "haiku" in listed
    assert "gemini-3.8-flash" not in listed
    assert "gpt-5-mini" not in listed
    assert client.get("/v1/models/haiku", headers=headers).status_code == 200
    assert client.get("/v1/models/gemini-3.8-flash", headers=headers).status_code == 403
    everything = {"x-api-key": store.add("bob", Rules())}
    assert len(client.get("/v1/models", headers=everything).json["data"]) > len(listed)


# --- limits ------------------------------------------------------------------------------------------


def limited(store, **limits: float) -> str:
    return store.add("alice", Rules(limits=Limits(**limits)))


@EACH_PROTOCOL
def test_a_reached_limit_is_a_429_that_says_which_and_until_when(client, store, upstream, call) -> None:
    secret = limited(store, requests_per_minute=2)
    for _ in range(2):
        assert post(client, call, secret).status_code == 200
    answer = post(client, call, secret)
    error = answer.json["error"]
    assert answer.status_code == 429
    assert error["type"] == "rate_limit_error"
    assert "2 requests per minute for the key 'alice'" in error["message"]
    assert 55 <= int(answer.headers["Retry-After"]) <= 61
    assert f"try again in {answer.headers['Retry-After']} s" in error["message"]
    assert "X-Should-Retry" not in answer.headers
    assert upstream.asked == 2


@pytest.mark.parametrize("call", [CHAT, RESPONSES], ids=["chat", "responses"])
def test_openai_responses_have_rate_limit_headers(client, store, call) -> None:
    secret = limited(store, requests_per_minute=3, tokens_per_minute=1000)
    names = ("limit-requests", "remaining-requests", "reset-requests", "limit-tokens", "remaining-tokens")
    seen = []
    for more in ({}, {"stream": True}, {"model": 7}, {}, {}):
        answer = post(client, call, secret, more=more)
        answer.get_data()
        answer.close()
        seen.append([answer.headers[f"x-ratelimit-{name}"] for name in names])
    assert seen == [
        ["3", "2", "1m1s", "1000", "1000"],
        ["3", "1", "1m1s", "1000", "900"],
        ["3", "1", seen[2][2], "1000", "800"],  # a refused request uses no limit
        ["3", "0", "1m1s", "1000", "800"],
        ["3", "0", seen[4][2], "1000", "700"],
    ]
    assert answer.status_code == 429
    assert answer.headers["x-ratelimit-reset-tokens"] in ("59s", "1m0s", "1m1s")


def refusals(folder: Path, question: UsageQuery) -> list[RefusalSum]:
    return open_stores(load(environ={"BRIDGE_STATE_DIR": str(folder)})).usage.refusals(question)


def total_refused(folder: Path, question: UsageQuery) -> int:
    return sum(each.requests for each in refusals(folder, question))


@EACH_PROTOCOL
def test_refused_requests_use_no_limit_and_appear_in_the_usage(client, store, call, caplog, tmp_path) -> None:
    caplog.set_level(logging.INFO, "bridge.access")
    path, _ = call
    secret = store.add("alice", Rules(models=("gemini-3.8-flash",), limits=Limits(requests_per_minute=1)))
    allowed = {"model": "gemini-3.8-flash"}
    for more in ({"model": "gpt-5"}, {**allowed, "temperature": "warm"}, {**allowed, "temperature": []}):
        assert post(client, call, secret, more=more).status_code in (400, 403)
    headers = {"Authorization": f"Bearer {secret}"}
    assert client.post(path, data=b"no JSON", headers=headers).status_code == 400
    assert post(client, call, secret, more=allowed).status_code == 200
    assert post(client, call, secret, more=allowed).status_code == 429
    lines = [record for record in caplog.records if record.name == "bridge.access"]
    assert [getattr(line, "rule", None) for line in lines] == [
        "key.models",
        *[None] * 4,
        "key.requests_per_minute",
    ]
    assert (lines[0].model, lines[0].upstream_model) == ("gpt-5", "gemini-pro-latest")
    question = UsageQuery(("day",), TODAY - timedelta(1), TODAY + timedelta(1), "alice")
    assert eventually(lambda: total_refused(tmp_path, question) == 5)
    assert {(each.rule, each.model, each.requests) for each in refusals(tmp_path, question)} == {
        ("invalid_request", "", 3),
        ("key.models", "gpt-5", 1),
        ("key.requests_per_minute", "", 1),
    }


def test_requests_without_a_valid_key_appear_in_the_usage(client, store, tmp_path) -> None:
    secret = store.add("alice", Rules())
    store.revoke("alice")
    for shown in (None, "typo", secret, secret):
        assert post(client, CHAT, shown).status_code == 401
    question = UsageQuery(("day",), TODAY - timedelta(1), TODAY + timedelta(1))
    assert eventually(lambda: total_refused(tmp_path, question) == 4)
    assert [tuple(each) for each in refusals(tmp_path, question)] == [
        ("alice", "key_revoked", "", 2),
        ("", "key_malformed", "", 1),
        ("", "key_missing", "", 1),
    ]


def test_anthropic_responses_have_rate_limit_headers(client, store) -> None:
    secret = limited(store, requests_per_minute=2, tokens_per_minute=1000)
    answers = [post(client, call, secret) for call in (MESSAGES, COUNT, MESSAGES)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers["anthropic-ratelimit-requests-remaining"] for answer in answers] == ["1", "0", "0"]
    assert [answer.headers["anthropic-ratelimit-tokens-remaining"] for answer in answers] == [
        "1000",
        "900",
        "900",
    ]
    assert answers[0].headers["anthropic-ratelimit-requests-limit"] == "2"
    reset = datetime.strptime(
        answers[0].headers["anthropic-ratelimit-requests-reset"], "%Y-%m-%dT%H:%M:%SZ"
    ).replace(tzinfo=UTC)
    assert 55 < (reset - datetime.now(UTC)).total_seconds() < 63
    assert not [name for name in answers[0].headers if name[0].lower().startswith("x-ratelimit")]


def test_a_key_without_limits_gets_no_rate_limit_headers(client, store, tmp_path) -> None:
    answer = post(client, CHAT, store.add("alice", Rules()))
    assert not [name for name, _ in answer.headers if "ratelimit" in name.lower()]
    assert not (tmp_path / "limits.sqlite3").exists()


def test_free_requests_are_not_counted(client, store) -> None:
    secret = limited(store, requests_per_minute=1)
    headers = {"x-api-key": secret}
    for _ in range(3):
        answer = client.get("/v1/models", headers=headers)
        assert (answer.status_code, answer.headers["x-ratelimit-remaining-requests"]) == (200, "1")
        answer = client.get("/v1/models", headers={**headers, "anthropic-version": "2023-06-01"})
        assert answer.headers["anthropic-ratelimit-requests-remaining"] == "1"
    assert post(client, CHAT, secret).status_code == 200
    assert client.get("/v1/models", headers=headers).headers["x-ratelimit-remaining-requests"] == "0"


@EACH_DOOR
def test_a_spent_budget_is_reported_and_not_retryable(client, store, call) -> None:
    until_midnight = 86400 - time.time() % 86400
    if until_midnight < 400:
        pytest.skip("too close to midnight")
    secret = limited(store, tokens_per_day=100)
    assert post(client, call, secret).status_code == 200
    answer = post(client, call, secret)
    assert answer.status_code == 429
    assert "100 tokens per day" in answer.json["error"]["message"]
    assert "00:00 UTC" in answer.json["error"]["message"]
    assert answer.headers["X-Should-Retry"] == "false"
    if call is MESSAGES:
        assert answer.json["error"]["type"] == "billing_error"
    if call is RESPONSES:  # Codex would sleep silently until midnight
        assert "Retry-After" not in answer.headers
    else:
        assert abs(int(answer.headers["Retry-After"]) - until_midnight) < 10


def test_a_total_limit_holds_without_any_key(make_client) -> None:
    client = make_client(BRIDGE_LIMITS__REQUESTS_PER_MINUTE="2")
    assert [post(client, CHAT).status_code for _ in range(3)] == [200, 200, 429]
    assert "for all clients together" in post(client, CHAT).json["error"]["message"]
    assert post(client, CHAT).headers["x-ratelimit-limit-requests"] == "2"


def test_a_slot_is_released_however_a_request_ends(client, store, upstream, monkeypatch) -> None:
    secret = limited(store, streams=1)
    running = post(client, CHAT, secret, more={"stream": True}, buffered=False)
    busy = post(client, MESSAGES, secret)
    assert (busy.status_code, busy.headers["Retry-After"]) == (429, "5")
    assert "1 answer at the same time" in busy.json["error"]["message"]
    running.close()
    whole = post(client, CHAT, secret)
    assert whole.status_code == 200
    assert post(client, CHAT, secret, more={"messages": "none"}).status_code == 400
    assert client.post(CHAT[0], data=b"{", headers={"x-api-key": secret}).status_code == 400
    read = post(client, CHAT, secret, more={"stream": True})
    assert read.data.endswith(b"[DONE]\n\n")
    read.close()
    monkeypatch.setattr(upstream, "stream", lambda request: 1 / 0)
    assert post(client, CHAT, secret).status_code == 500
    monkeypatch.undo()
    assert post(client, CHAT, secret).status_code == 200


def test_a_background_answer_holds_its_slot_until_it_is_done(client, store, upstream, monkeypatch) -> None:
    goes_on = threading.Event()

    class Waits(Answers):
        def __iter__(self):
            goes_on.wait(20)
            return super().__iter__()

    monkeypatch.setattr(upstream, "stream", lambda request: Waits())
    secret = limited(store, streams=1, tokens_per_minute=1000)
    headers = {"x-api-key": secret}
    made = post(client, RESPONSES, secret, more={"background": True}).json
    assert post(client, RESPONSES, secret).status_code == 429
    goes_on.set()
    assert eventually(lambda: post(client, RESPONSES, secret).status_code == 200, every=0.02)
    shown = client.get(f"/v1/responses/{made['id']}", headers=headers)
    assert shown.json["status"] == "completed"
    assert shown.headers["x-ratelimit-remaining-tokens"] == "800", "both answers were counted, each once"


def test_a_refused_background_answer_holds_no_slot(client, store, monkeypatch) -> None:
    secret = store.add("alice", Rules(models=("gemini-*flash*",), limits=Limits(streams=1)))
    for _ in range(3):
        assert post(client, RESPONSES, secret, more={"background": True}).status_code == 403


def test_requests_pass_when_limits_cannot_be_counted(client, store, tmp_path, caplog) -> None:
    caplog.set_level(logging.INFO, "bridge.access")
    (tmp_path / "limits.sqlite3").mkdir()
    secret = limited(store, requests_per_minute=1, streams=1, tokens_per_day=1)
    for call in (CHAT, RESPONSES, MESSAGES) * 3:
        assert post(client, call, secret).status_code == 200
    assert client.get("/v1/models", headers={"x-api-key": secret}).status_code == 200
    line = next(record for record in caplog.records if record.name == "bridge.access")
    assert line.notes["limits_not_enforced"] == 1


# --- stored answers ----------------------------------------------------------------------------------


def test_stored_answers_stay_with_their_owner_when_the_key_is_rotated(client, store) -> None:
    old, other_owner = store.add("alice", Rules()), store.add("mallory", Rules())
    made = post(client, RESPONSES, old).json
    new = store.rotate("alice", 3600)
    for secret, status in ((old, 200), (new, 200), (other_owner, 404)):
        headers = {"Authorization": f"Bearer {secret}"}
        assert client.get(f"/v1/responses/{made['id']}", headers=headers).status_code == status
    gone_on = post(client, RESPONSES, new, more={"previous_response_id": made["id"]})
    assert gone_on.status_code == 200
    assert post(client, RESPONSES, other_owner, more={"previous_response_id": made["id"]}).status_code == 400
