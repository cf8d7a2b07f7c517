"""The web application in memory: envelopes, ids, limits, models, closing."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import reduce

import pytest
from scripted_gemini import text_chunk
from transcripts import NAMES, chunks_of

from bridge.errors import UpstreamRateLimited, UpstreamTruncated, UpstreamUnreachable
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.gemini.wire import chunk_from_json
from bridge.observe.record import Record
from bridge.settings import load
from bridge.upstream.base import ChunkStream, Upstream
from bridge.web.app import create_app

HELLO = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}


class Played(ChunkStream):
    def __init__(self, chunks: Sequence[Chunk], error: Exception | None) -> None:
        self.closed = 0
        self._chunks = chunks
        self._error = error

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        for chunk in self._chunks:
            yield [chunk]
        if self._error:
            raise self._error

    def close(self) -> None:
        self.closed += 1


class Replay(Upstream):
    """Yields `chunks`, then raises `error` if there is one; `refusal` is raised instead of an answer."""

    def __init__(self) -> None:
        self.chunks: Sequence[Chunk] = [chunk_from_json(text_chunk("Hello.", "STOP"))]
        self.error: Exception | None = None
        self.refusal: Exception | None = None
        self.asked: list[GenerateRequest] = []
        self.played: list[Played] = []
        self.listed: list[JsonObject] | Exception = [
            {"name": "models/gemini-pro-latest", "inputTokenLimit": 10}
        ]

    def stream(self, request: GenerateRequest) -> ChunkStream:
        self.asked.append(request)
        if self.refusal:
            raise self.refusal
        self.played.append(Played(self.chunks, self.error))
        return self.played[-1]

    def count_tokens(self, request: GenerateRequest) -> int:
        self.asked.append(request)
        return 42

    def models(self) -> Sequence[JsonObject]:
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed


@pytest.fixture
def upstream() -> Replay:
    return Replay()


@pytest.fixture
def client(upstream, tmp_path):
    environ = {"BRIDGE_SERVER__MAX_BODY_MB": "1", "BRIDGE_UPSTREAM__ATTEMPTS": "1"}
    settings = load(environ={"BRIDGE_STATE_DIR": str(tmp_path), **environ})
    return create_app(settings, upstream).test_client()


def chat(client, **more):
    return client.post("/v1/chat/completions", json={**HELLO, **more})


def test_an_answer_names_the_requested_model(client, upstream):
    body = chat(client).json
    assert body["model"] == "gpt-5"
    assert upstream.asked[0].model == "gemini-pro-latest"
    assert body["choices"][0]["message"]["content"] == "Hello."


@pytest.mark.parametrize("name", NAMES)
def test_streamed_and_whole_answers_agree(client, upstream, name):
    upstream.chunks = chunks_of(name)
    whole = chat(client)
    streamed = chat(client, stream=True, stream_options={"include_usage": True})
    assert (whole.status_code >= 400) == (b'"error"' in streamed.data)
    if whole.status_code == 200:
        assert whole.json["usage"] == last_usage(streamed.data)


def last_usage(data: bytes) -> object:
    import json

    events = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: {")]
    return json.loads(events[-1])["usage"]


def test_a_stream_has_the_headers_that_keep_proxies_from_holding_it(client):
    answer = chat(client, stream=True)
    assert answer.content_type == "text/event-stream; charset=utf-8"
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.data.endswith(b"data: [DONE]\n\n")


def test_a_valid_request_id_is_kept_and_an_invalid_one_replaced(client):
    kept = client.get("/healthz", headers={"X-Request-Id": "trace-1"})
    assert kept.headers["X-Request-Id"] == "trace-1"
    replaced = client.get("/healthz", headers={"X-Request-Id": "a b<script>"})
    assert replaced.headers["X-Request-Id"].startswith("req_")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b'{"model": NaN}', "not valid JSON"),
        (b'{"model": "\xff"}', "not valid JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "not valid JSON"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "not valid JSON"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_a_400(client, data, message):
    answer = client.post("/v1/chat/completions", data=data)
    assert answer.status_code == 400
    assert message in answer.json["error"]["message"]
    assert answer.json["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("depth", [50, 240, 260, 900])
def test_deep_arguments_and_schemas_are_carried_or_refused(client, depth):
    nested = '{"a":' * depth + "1" + "}" * depth
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": nested}}
    history = [*HELLO["messages"], {"role": "assistant", "tool_calls": [call]}]
    answer = chat(client, messages=[*history, {"role": "tool", "tool_call_id": "c", "content": nested}])
    assert answer.status_code in (200, 400)


def test_a_body_above_the_limit_is_a_413(client):
    answer = client.post("/v1/chat/completions", data=b" " * (1024 * 1024 + 1))
    assert answer.status_code == 413
    assert answer.json["error"]["message"] == "The body is larger than 1 MB"


def test_an_unknown_path_is_a_404_in_an_envelope(client):
    answer = client.get("/v1/nothing")
    assert (answer.status_code, answer.json["error"]["code"]) == (404, "unknown_url")


def test_a_wrong_method_is_a_405_with_the_allowed_methods(client):
    answer = client.get("/v1/chat/completions")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


def test_a_refusal_before_the_answer_has_its_status_and_an_integer_retry_after(client, upstream):
    upstream.refusal = UpstreamRateLimited("slow down", retry_after=6.2)
    for stream in (True, False):
        answer = chat(client, stream=stream)
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
        assert answer.json["error"]["code"] == "rate_limit_exceeded"


def test_a_failure_before_the_first_event_is_an_ordinary_error(client, upstream):
    upstream.chunks, upstream.error = (), UpstreamUnreachable("gone")
    assert chat(client, stream=True).status_code == 502
    assert upstream.played[0].closed


def test_a_failure_after_the_first_event_is_an_error_event_in_the_stream(client, upstream):
    upstream.chunks, upstream.error = [chunk_from_json(text_chunk("Hel"))], UpstreamTruncated("cut")
    answer = chat(client, stream=True)
    assert answer.status_code == 200
    assert b'"error":{"message":"cut"' in answer.data
    assert answer.data.endswith(b"data: [DONE]\n\n")
    assert chat(client).status_code == 502


def test_an_unexpected_exception_is_an_internal_error_without_details(client, upstream, caplog):
    upstream.refusal = ValueError("prompt: my secret plans")
    answer = chat(client)
    assert (answer.status_code, answer.json["error"]["type"]) == (500, "server_error")
    assert "secret" not in answer.text
    upstream.refusal, upstream.error = None, ValueError("prompt: my secret plans")
    upstream.chunks = [chunk_from_json(text_chunk("Hel"))]
    streamed = chat(client, stream=True).data
    assert b"internal_error" in streamed
    assert b"secret" not in streamed


def test_the_upstream_is_closed_when_the_client_disconnects_before_the_first_byte(client, upstream):
    answer = client.post("/v1/chat/completions", json={**HELLO, "stream": True}, buffered=False)
    answer.close()
    assert upstream.played[0].closed


def test_every_request_writes_one_log_line(client, upstream, caplog):
    caplog.set_level(logging.INFO, "bridge.access")
    chat(client)
    chat(client, stream=True).close()
    upstream.refusal = UpstreamUnreachable("no route")
    chat(client)
    client.get("/healthz")
    lines = [record for record in caplog.records if record.name == "bridge.access"]
    assert [(line.status, line.outcome) for line in lines] == [
        (200, "completed"),
        (200, "client_left"),
        (502, "failed"),
    ]
    assert lines[0].input_tokens == 5
    assert lines[2].reason == "no route"


RESPONSES = {"model": "gpt-5", "input": "Hello", "stream": True}
MESSAGES = {**HELLO, "max_tokens": 9, "stream": True}
STREAMS = pytest.mark.parametrize(
    ("path", "body", "last"),
    [
        ("/v1/chat/completions", {**HELLO, "stream": True}, b"[DONE]"),
        ("/v1/responses", RESPONSES, b"response.completed"),
        ("/v1/messages", MESSAGES, b"message_stop"),
    ],
)


@STREAMS
def test_a_stream_is_recorded_before_its_last_event_is_sent(client, caplog, path, body, last):
    caplog.set_level(logging.INFO, "bridge.access")
    outcomes = []
    for piece in client.post(path, json=body, buffered=False).iter_encoded():
        outcomes = [record.outcome for record in caplog.records if record.name == "bridge.access"]
        if last in piece:
            break
        assert outcomes == []
    assert outcomes == ["completed"]


@STREAMS
def test_a_stream_has_its_last_event_although_it_cannot_be_recorded(
    client, monkeypatch, caplog, path, body, last
):
    def fail(_record):
        raise ValueError("a bug")

    monkeypatch.setattr(Record, "tell", fail)
    with suppress(ValueError):  # of the second try, when the body is closed
        pieces = client.post(path, json=body, buffered=False).iter_encoded()
        assert any(last in piece for piece in pieces)
    assert "unexpected failure" in caplog.messages


def test_an_alias_to_an_unknown_model_is_explained(client, upstream):
    from bridge.errors import UnknownModel

    upstream.refusal = UnknownModel("models/gemini-3.1-pro-preview is not found")
    message = chat(client).json["error"]["message"]
    assert "'gpt-5'" in message
    assert "config/models.toml" in message


def test_the_model_list_has_upstream_models_and_configured_aliases(client):
    listed = {model["id"]: model for model in client.get("/v1/models").json["data"]}
    assert listed["gemini-pro-latest"]["object"] == "model"
    assert listed["gpt-5"]["context_window"] == 10
    assert client.get("/v1/models/gpt-5").json["id"] == "gpt-5"
    assert client.get("/v1/models/models/gemini-pro-latest").json["id"] == "gemini-pro-latest"
    missing = client.get("/v1/models/nobody")
    assert (missing.status_code, missing.json["error"]["code"]) == (404, "model_not_found")


def test_the_model_list_is_cached_and_stale_lists_are_served_while_the_upstream_is_down(upstream, tmp_path):
    settings = load(environ={"BRIDGE_STATE_DIR": str(tmp_path), "BRIDGE_UPSTREAM__MODELS_TTL": "0"})
    client = create_app(settings, upstream).test_client()
    known, upstream.listed = upstream.listed, UpstreamUnreachable("down")
    assert client.get("/v1/models").status_code == 502
    upstream.listed = known
    assert client.get("/v1/models").status_code == 200
    upstream.listed = UpstreamUnreachable("down")
    assert client.get("/v1/models").status_code == 200


def test_health_and_readiness_answer(client):
    assert client.get("/healthz").json == {"status": "ok"}
    assert client.get("/readyz").json["status"] == "ready"
    assert "POST /v1/chat/completions" in client.get("/").json["endpoints"]


def test_debug_mode_logs_each_step_and_normal_mode_none(upstream, tmp_path, caplog):
    caplog.set_level(logging.INFO, "bridge.trace")
    environ = {"BRIDGE_STATE_DIR": str(tmp_path), "DEBUG": "1"}
    chat(create_app(load(environ=environ), upstream).test_client(), stream=True).data  # noqa: B018
    steps = [record.message for record in caplog.records if record.name == "bridge.trace"]
    assert list(dict.fromkeys(steps)) == ["client request", "gemini request", "gemini chunk", "client event"]
    caplog.clear()
    environ["DEBUG"] = "0"
    chat(create_app(load(environ=environ), upstream).test_client())
    assert not [record for record in caplog.records if record.name == "bridge.trace"]


def test_a_streamed_answer_is_stored_before_its_last_event_is_sent(client) -> None:
    body = {"model": "gpt-5", "input": "Hello", "stream": True}
    with client.post("/v1/responses", json=body, buffered=False) as answer:
        last = next(piece for piece in answer.response if b"response.completed" in piece)
        made = re.search(rb'"id":"(resp_[^"]+)"', last)[1].decode()
        assert client.get(f"/v1/responses/{made}").json["status"] == "completed"


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_cannot_be_stored_still_reaches_the_client(client, stream: bool) -> None:
    nested = reduce(lambda inside, _: [inside], range(300), "deep")  # deeper than the JSON writer allows
    question = [{"role": "user", "content": "Hello", "unknown": nested}]
    answer = client.post("/v1/responses", json={"model": "gpt-5", "input": question, "stream": stream})
    assert answer.status_code == 200
    assert '"status":"completed"' in answer.text


TYPOS = [
    *[
        ("POST", path, "code")
        for path in ("/v1/chat/completion", "/v1/chat", "/v1/chat/completions/", "/v1/embed")
    ],
    *[
        ("POST", path, "code")
        for path in ("/v1/response", "/v1/models/gpt-5", "/v1/files", "/v2/anything", "/v1")
    ],
    *[("PUT", path, "code") for path in ("/v1/models/gpt-5", "/v1/responses/resp_1", "/healthzz")],
    *[
        ("POST", path, "type")
        for path in ("/v1/messages/", "/v1/messages/batches", "/v1/messages/count_token")
    ],
    *[("GET", path, "type") for path in ("/v1/messages/batches", "/v1/messages/msg_1")],
    *[("POST", path, "status") for path in ("/v1beta/model", "/v1beta/models/gpt-5", "/v1beta/")],
    *[("POST", path, "status") for path in ("/v1beta/models/gpt-5:generate", "/v1/models/gpt-5:generate")],
    *[("PATCH", path, "status") for path in ("/v1beta/interactions/x/y", "/v1beta/interactions/int_1")],
    *[
        ("GET", path, "status")
        for path in ("/v1beta/cachedContents", "/v1beta/files", "/v1/interactions/a/b")
    ],
]


@pytest.mark.parametrize(("method", "path", "field"), TYPOS)
def test_a_mistyped_path_is_a_404_in_the_envelope_of_its_prefix(client, method, path, field):
    answer = client.open(path, method=method, json={})
    error = answer.json["error"]
    assert answer.status_code == 404
    assert "Allow" not in answer.headers
    assert {"code": "unknown_url", "type": "not_found_error", "status": "NOT_FOUND"}[field] == error[field]


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"]
)
def test_a_wrong_method_of_a_served_path_stays_a_405(client, path):
    answer = client.put(path, json={})
    assert (answer.status_code, "POST" in answer.headers["Allow"]) == (405, True)
