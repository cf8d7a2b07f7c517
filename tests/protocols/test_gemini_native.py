"""The native Gemini protocol over HTTP: routes, both kinds of stream, errors, keys."""

from __future__ import annotations

import json
import socket
import threading
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import requests
from scripted_gemini import Reply, call_chunk, sse, text_chunk
from waiting import eventually

HELLO = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
STREAM = "gemini-3.1-pro-preview:streamGenerateContent"
NATIVE = {"x-goog-api-key": "client-key"}


@pytest.fixture
def ask(bridge):
    def asked(method, body=HELLO, version="v1beta", **options):
        return requests.post(f"{bridge.address}/{version}/models/{method}", json=body, timeout=30, **options)

    return asked


def error_of(answer):
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    return error


def details_of(error, kind):
    return [each for each in error.get("details", ()) if each["@type"].endswith(f"google.rpc.{kind}")]


# --- unchanged data ----------------------------------------------------------------------------------

TOLD = {
    "candidates": [
        {
            "content": {
                "parts": [{"text": "Hi.", "newPartField": {"a_b": 1}}],
                "role": "model",
                "newField": 2,
            },
            "finishReason": "A_REASON_OF_TOMORROW",
            "index": 0,
            "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}],
            "newCandidateField": [1],
        }
    ],
    "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3, "newCount": 4},
    "modelVersion": "gemini-3.1-pro-preview-2",
    "responseId": "r-1",
    "newChunkField": {"x_y": 3},
}


@pytest.mark.parametrize("version", ["v1beta", "v1"])
def test_geminis_answer_passes_with_every_field(ask, gemini, version):
    gemini.will_say(sse(TOLD), sse(TOLD), sse(TOLD))
    assert ask("gemini-3.1-pro-preview:generateContent", version=version).json() == TOLD
    assert ask(STREAM, version=version).json() == [TOLD]
    (line,) = ask(f"{STREAM}?alt=sse", version=version).text.split("\n\n")[:-1]
    assert json.loads(line.removeprefix("data: ")) == TOLD


def test_another_vendors_model_name_resolves_to_a_gemini_model(ask, gemini):
    gemini.will_say(sse(TOLD))
    assert ask("gpt-5:generateContent").json()["modelVersion"] == "gemini-3.1-pro-preview-2"
    ask("models/gemini-3.8-flash:generateContent")
    assert [asked.path.partition(":")[0] for asked in gemini.asked] == [
        "/v1beta/models/gemini-pro-latest",
        "/v1beta/models/gemini-3.8-flash",
    ]


def test_a_native_call_has_geminis_id_or_none(ask, gemini):
    bare = call_chunk("f", {}, "c1", "c2ln", "STOP")
    del bare["candidates"][0]["content"]["parts"][0]["functionCall"]["id"]
    gemini.will_say(sse(bare), sse(call_chunk("f", {}, "c1", "c2ln", "STOP")))
    made = [
        ask("gemini-3.1-pro-preview:generateContent").json()["candidates"][0]["content"]["parts"]
        for _ in "12"
    ]
    assert made == [
        [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}],
        [{"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}],
    ]


def test_a_foreign_signature_is_dropped_when_the_model_changes(ask, gemini):
    signature, own = f"{uuid4().hex}+/==", uuid4().hex
    gemini.will_say(sse(call_chunk("f", {}, own, signature, "STOP")))
    said = ask("gemini-3.1-pro-preview:generateContent").json()["candidates"][0]["content"]
    answered = {"role": "user", "parts": [{"functionResponse": {"id": own, "name": "f", "response": {}}}]}
    history = {"contents": [*HELLO["contents"], said, answered]}
    for model, sent in {
        "gemini-3.8-flash": signature,
        "gemini-4-argon": "skip_thought_signature_validator",
    }.items():
        ask(f"{model}:generateContent", history)
        assert gemini.asked[-1].body["contents"][1]["parts"][0]["thoughtSignature"] == sent


def test_tokens_are_counted_of_contents_or_of_a_whole_request(ask, gemini):
    whole = {"generate_content_request": {**HELLO, "model": "models/x", "tools": [{"googleSearch": {}}]}}
    for body in (HELLO, whole):
        gemini.will_say(Reply([b'{"totalTokens": 9}']))
        assert ask("gpt-5:countTokens", body).json() == {"totalTokens": 9}
        counted = gemini.asked[-1].body["generateContentRequest"]
        assert counted["model"] == "models/gemini-pro-latest"
        assert counted["contents"] == HELLO["contents"]
    assert counted["tools"] == [{"googleSearch": {}}]


# --- the stream as one array -------------------------------------------------------------------------


def test_the_array_is_streamed(ask, gemini):
    seen = threading.Event()
    said = [*sse(text_chunk("One")), lambda: seen.wait(60), 1.0, *sse(text_chunk("Two", "STOP"))]
    gemini.will_say(said)
    with ask(f"{STREAM}?alt=json", stream=True) as answer:
        assert answer.headers["content-type"] == "application/json; charset=UTF-8"
        pieces = answer.iter_content(None)
        told = next(pieces)
        assert b"One" in told
        seen.set()
        told += b"".join(pieces)
    assert told.count(b"\n", 0, told.index(b"Two")) >= 3, "signs of life in between"
    assert told.startswith(b"[{")
    assert told.endswith(b"}]"), "Google's oldest SDK stumbles over anything behind it"
    assert [chunk["candidates"][0]["content"]["parts"] for chunk in json.loads(told)] == [
        [{"text": "One"}],
        [{"text": "Two"}],
    ]


def test_a_broken_array_ends_with_the_error_and_is_valid_json(ask, gemini):
    gemini.will_say(sse(text_chunk("Half an ans")))
    told = ask(STREAM)
    assert told.status_code == 200
    half, failed = json.loads(told.content)
    assert half["candidates"][0]["content"]["parts"] == [{"text": "Half an ans"}]
    assert (failed["error"]["code"], failed["error"]["status"]) == (503, "UNAVAILABLE")


def test_a_broken_event_stream_ends_with_the_error(ask, gemini):
    gemini.will_say(sse(text_chunk("Half an ans")))
    _, event, bare = ask(f"{STREAM}?alt=sse").text.split("\n\n")
    assert json.loads(event.removeprefix("data: "))["error"]["status"] == "UNAVAILABLE"
    assert json.loads(bare) == json.loads(event.removeprefix("data: "))


def test_a_client_disconnect_ends_the_upstream_call(bridge, gemini):
    address, request_id = urlsplit(bridge.address), f"leaves-{uuid4().hex}"
    gemini.will_say([*sse(text_chunk("One")), 30.0, *sse(text_chunk("Two", "STOP"))])
    body = json.dumps(HELLO).encode()
    with socket.create_connection((address.hostname, address.port)) as line:
        line.sendall(
            f"POST /v1beta/models/{STREAM} HTTP/1.1\r\nHost: x\r\nX-Request-Id: {request_id}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        assert line.recv(100)
    left = bridge.request(request_id=request_id)
    assert left["outcome"] == "client_left"
    assert left["duration_ms"] < 5000


# --- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1beta", "v1"])
@pytest.mark.parametrize("method", ["explainContent", "GenerateContent", "generateContent2", "models"])
def test_an_unknown_method_is_a_404(ask, gemini, version, method):
    error = error_of(ask(f"gemini-3.1-pro-preview:{method}", version=version))
    assert (error["code"], error["status"]) == (404, "NOT_FOUND")
    assert method in error["message"]
    assert f"/{version}/models/{{model}}:countTokens" in error["message"]
    assert gemini.asked == []


def test_an_unknown_model_is_a_404(ask, gemini):
    said = "models/gemini-0 is not found for API version v1beta, or is not supported for generateContent."
    for method in ("generateContent", "streamGenerateContent", "countTokens"):
        gemini.will_say(
            Reply(
                [json.dumps({"error": {"code": 404, "message": said, "status": "NOT_FOUND"}}).encode()], 404
            )
        )
        error = error_of(ask(f"gemini-0:{method}"))
        assert (error["code"], error["status"]) == (404, "NOT_FOUND")
        assert "gemini-0" in error["message"]


@pytest.mark.parametrize(
    ("method", "body", "field"),
    [
        ("generateContent", {"contents": [{"parts": [{"text": 1}]}]}, "contents[0].parts[0].text"),
        ("streamGenerateContent?alt=sse", {"contents": [1]}, "contents[0]"),
        ("streamGenerateContent?alt=proto", HELLO, "alt"),
        ("countTokens", {}, "contents"),
        ("countTokens", {**HELLO, "generateContentRequest": HELLO}, "contents"),
        ("countTokens", {"generateContentRequest": 5}, "generateContentRequest"),
        (
            "countTokens",
            {"generateContentRequest": {"contents": [{"role": "x", "parts": []}]}},
            "generateContentRequest.contents[0].role",
        ),
        ("embedContent", {}, "content"),
        ("embedContent", {"content": {"parts": []}}, "content.parts"),
        ("batchEmbedContents", {}, "requests"),
        (
            "batchEmbedContents",
            {"requests": [{"content": {"parts": [{"text": 7}]}}]},
            "requests[0].content.parts[0].text",
        ),
        ("batchEmbedContents", {"requests": [{}]}, "requests[0].content"),
    ],
)
def test_a_malformed_request_is_a_400_that_names_the_field(ask, gemini, method, body, field):
    error = error_of(ask(f"gemini-3.1-pro-preview:{method}", body))
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["message"].startswith(f"{field}: ")
    (bad_request,) = details_of(error, "BadRequest")
    assert bad_request["fieldViolations"][0]["field"] == field
    assert gemini.asked == []


def test_a_body_that_is_not_json_is_a_400_in_googles_envelope(bridge):
    answer = requests.post(f"{bridge.address}/v1beta/models/x:generateContent", data=b"{", timeout=30)
    assert error_of(answer)["status"] == "INVALID_ARGUMENT"


def test_an_overlong_model_name_is_a_400(ask, gemini):
    assert "model: " in error_of(ask(f"{'x' * 300}:generateContent"))["message"]


def test_a_wrong_method_has_googles_envelope(bridge):
    answer = requests.post(f"{bridge.address}/v1beta/models", json=HELLO, timeout=30)
    assert (answer.status_code, error_of(answer)["status"]) == (405, "UNIMPLEMENTED")


def test_a_model_without_a_method_is_a_404_in_googles_envelope(bridge):
    answer = requests.post(f"{bridge.address}/v1beta/models/gemini-3.1-pro-preview", json=HELLO, timeout=30)
    assert (answer.status_code, error_of(answer)["status"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/v1beta/cachedContents", "/v1beta/files", "/v1beta"])
def test_unsupported_google_routes_are_a_404_in_googles_envelope(bridge, path):
    answer = requests.post(f"{bridge.address}{path}", json={}, timeout=30)
    assert (answer.status_code, error_of(answer)["status"]) == (404, "NOT_FOUND")


def test_a_rate_limit_says_how_long_to_wait(ask, gemini):
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.2s"}
    envelope = {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED", "details": [wait]}
    gemini.will_say(Reply([json.dumps({"error": envelope}).encode()], 429))
    answer = ask(STREAM)
    error = error_of(answer)
    assert (error["status"], error["message"]) == ("RESOURCE_EXHAUSTED", "Slow down.")
    assert details_of(error, "RetryInfo") == [{**wait, "retryDelay": "3s"}]
    assert answer.headers["retry-after"] == "3"
    assert details_of(error, "RequestInfo")[0]["requestId"] == answer.headers["x-request-id"]


# --- models ------------------------------------------------------------------------------------------


def test_models_have_the_callers_protocol_format(bridge, gemini):
    def got(path, **headers):
        return requests.get(f"{bridge.address}{path}", headers=headers, timeout=30).json()

    for listed in (got("/v1beta/models"), got("/v1/models", **NATIVE)):
        models = {model["name"]: model for model in listed["models"]}
        assert models["models/gpt-5"]["inputTokenLimit"] == 1048576
        assert "generateContent" in models["models/gemini-3.1-pro-preview"]["supportedGenerationMethods"]
        assert not {"id", "created"} & models["models/gemini-3.1-pro-preview"].keys()
    assert got("/v1/models")["object"] == "list"
    assert got("/v1/models/gpt-5", **{"x-goog-api-client": "gl-python/3"})["name"] == "models/gpt-5"
    assert got("/v1beta/models/gemini-3.1-pro-preview")["name"] == "models/gemini-3.1-pro-preview"
    assert got("/v1beta/models/gemini-0")["error"]["status"] == "NOT_FOUND"


def test_models_are_paged_on_request(bridge, gemini):
    def page(**query):
        return requests.get(f"{bridge.address}/v1beta/models", params=query, timeout=30)

    everything = [model["name"] for model in page().json()["models"]]
    token, found = "", []
    while token is not None:
        told = page(pageSize=4, pageToken=token).json()
        assert len(told["models"]) <= 4
        found += [model["name"] for model in told["models"]]
        token = told.get("nextPageToken")
    assert found == everything
    for bad in ({"pageSize": "many"}, {"pageSize": "-1"}, {"pageToken": "x"}):
        answer = page(**bad)
        assert (answer.status_code, error_of(answer)["status"]) == (400, "INVALID_ARGUMENT")


# --- keys --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["generateContent", "streamGenerateContent", "countTokens", "embedContent", "oops"]
)
def test_a_key_in_the_query_is_neither_sent_on_nor_logged(bridge, ask, gemini, method):
    key = f"canary-{uuid4().hex}"
    gemini.will_answer(lambda asked: sse(TOLD) if "alt" in asked.path else Reply([b'{"totalTokens": 1}']))
    ask(f"gemini-3.1-pro-preview:{method}?key={key}", {**HELLO, "content": HELLO["contents"][0]})
    ask(
        f"gemini-3.1-pro-preview:{method}?key={key}",
        {"contents": 5},
        headers={"x-request-id": f"last-{key[-9:]}"},
    )
    assert key not in str(gemini.asked)
    assert eventually(lambda: f"last-{key[-9:]}" in bridge.lines())
    assert key not in bridge.lines()


# --- the demo model ----------------------------------------------------------------------------------


def test_the_demo_model_generates_counts_and_embeds(demo_bridge):
    def posted(method, body=HELLO):
        return requests.post(f"{demo_bridge.address}/v1beta/models/demo:{method}", json=body, timeout=60)

    whole = posted("generateContent").json()
    text = whole["candidates"][0]["content"]["parts"][0]["text"]
    assert "demo model" in text
    pieces = [
        chunk["candidates"][0]["content"]["parts"][0]["text"]
        for chunk in posted("streamGenerateContent").json()
    ]
    assert len(pieces) > 3
    assert "".join(pieces) == text
    assert posted("countTokens").json()["totalTokens"] > 0

    def vector(text):
        asked = {"content": {"parts": [{"text": text}]}, "outputDimensionality": 256}
        return posted("embedContent", asked).json()["embedding"]["values"]

    def likeness(one, two):
        return sum(a * b for a, b in zip(vector(one), vector(two), strict=True))

    assert likeness("the red house", "the red house") == pytest.approx(1, abs=1e-3)
    assert likeness("the red house", "a red house") > likeness("the red house", "rust compiles slowly")
