"""Vertex AI against scripted servers: addresses, tokens and settings."""

from __future__ import annotations

import builtins
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from gunicorn_bridge import free_port
from scripted_gemini import Reply, ScriptedGemini, sse, text_chunk
from scripted_tokens import CANARY_TOKEN, TokenServer, service_account
from upstream_rigs import CONFIG, Rig, environment, make, read
from waiting import eventually

from bridge import errors
from bridge.errors import BridgeError
from bridge.gemini.types import Content, FunctionDeclaration, GenerateRequest, Part, Tool
from bridge.settings import SettingsError, load
from bridge.upstream import make_upstream
from bridge.upstream.vertex import VertexUpstream

SetUp = Callable[..., Rig]
PLACE = "/v1beta1/projects/canary-project/locations/europe-west4/publishers/google/models"
REQUEST = GenerateRequest("gemini-x", (Content("user", (Part("Hello"),)),))
REFUSED = {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "Request had invalid credentials."}}


@pytest.fixture
def vertex(set_up: SetUp) -> Rig:
    return set_up("vertex")


def texts(rig: Rig, request: GenerateRequest = REQUEST) -> list[Any]:
    return [part.data for chunk in read(rig.upstream, request) for part in chunk.candidates[0].parts]


def refused(body: dict[str, Any] = REFUSED) -> Reply:
    return Reply([orjson.dumps(body)], body["error"]["code"])


def bearers(rig: Rig) -> list[str]:
    return [asked.headers["authorization"].removeprefix(f"Bearer {CANARY_TOKEN}") for asked in rig.api.asked]


# --- the wire format ---------------------------------------------------------------------------------


def test_a_request_goes_to_the_models_path_in_the_project(vertex: Rig) -> None:
    assert texts(vertex) == ["Hello."]
    asked = vertex.api.asked[0]
    assert asked.path == f"{PLACE}/gemini-x:streamGenerateContent?alt=sse"
    assert asked.body == {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    assert asked.headers["authorization"] == f"Bearer {CANARY_TOKEN}1"
    assert "x-goog-api-key" not in asked.headers


@pytest.mark.parametrize(
    ("model", "segment"),
    [
        ("models/gemini-x", "gemini-x"),
        ("publishers/google/models/gemini-x", "gemini-x"),
        ("projects/other/locations/us/endpoints/7", "projects%2Fother%2Flocations%2Fus%2Fendpoints%2F7"),
        ("../../../other", "..%2F..%2F..%2Fother"),
        ("x?key=1#", "x%3Fkey%3D1%23"),
    ],
)
def test_a_model_name_cannot_change_the_project_in_the_path(vertex: Rig, model: str, segment: str) -> None:
    texts(vertex, GenerateRequest(model, REQUEST.contents))
    assert vertex.api.asked[0].path == f"{PLACE}/{segment}:streamGenerateContent?alt=sse"


@pytest.mark.parametrize("tier", ["flex", "priority"])
def test_a_service_tier_goes_into_headers(vertex: Rig, tier: str) -> None:
    texts(vertex, replace(REQUEST, service_tier=tier))
    texts(vertex)
    first, second = vertex.api.asked
    assert first.headers["x-vertex-ai-llm-request-type"] == "shared"
    assert first.headers["x-vertex-ai-llm-shared-request-type"] == tier
    assert "serviceTier" not in first.body
    assert not [name for name in second.headers if name.startswith("x-vertex")]


def test_a_service_tier_unknown_to_vertex_is_refused(vertex: Rig) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"no service tier 'a.*b'") as caught:
        texts(vertex, replace(REQUEST, service_tier="a\r\nx-evil: b"))
    assert caught.value.param == "serviceTier"
    assert vertex.api.asked == []


def test_tokens_are_counted_from_the_fields_that_vertex_knows(vertex: Rig) -> None:
    vertex.api.will_say(Reply([b'{"totalTokens": 12, "totalBillableCharacters": 40}']))
    request = GenerateRequest(
        "gemini-x",
        REQUEST.contents,
        Content(None, (Part("Be brief."),)),
        (Tool((FunctionDeclaration("look"),)),),
        {"functionCallingConfig": {"mode": "NONE"}},
        {"temperature": 0},
        extra={"safetySettings": []},
    )
    assert vertex.upstream.count_tokens(request) == 12
    assert vertex.api.asked[0].path == f"{PLACE}/gemini-x:countTokens"
    assert vertex.api.asked[0].body == {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "look"}]}],
        "generationConfig": {"temperature": 0},
    }


def test_googles_models_that_can_generate_are_listed(vertex: Rig) -> None:
    names = ("gemini-x", "gemini-embedding-x", "imagen", "gemini-y")
    models = [{"name": f"publishers/google/models/{name}", "versionId": "1"} for name in names]
    first = {"publisherModels": models[:3], "nextPageToken": "more"}
    vertex.api.will_list(first, {"publisherModels": [*models[3:], 7]})
    assert vertex.upstream.models() == ({"name": "models/gemini-x"}, {"name": "models/gemini-y"})
    assert [asked.path for asked in vertex.api.listings] == [
        "/v1beta1/publishers/google/models?pageSize=100",
        "/v1beta1/publishers/google/models?pageSize=100&pageToken=more",
    ]


def test_configured_models_are_listed_without_an_upstream_call(set_up: SetUp) -> None:
    vertex = set_up("vertex", BRIDGE_VERTEX__MODELS="gemini-x, publishers/google/models/gemini-y")
    assert vertex.upstream.models() == ({"name": "models/gemini-x"}, {"name": "models/gemini-y"})
    assert vertex.api.listings == []


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        (400, "INVALID_ARGUMENT", errors.UpstreamRefused),
        (403, "PERMISSION_DENIED", errors.UpstreamMisconfigured),
        (404, "NOT_FOUND", errors.UnknownModel),
        (429, "RESOURCE_EXHAUSTED", errors.UpstreamRateLimited),
        (503, "UNAVAILABLE", errors.UpstreamOverloaded),
    ],
)
def test_errors_have_googles_envelope(
    vertex: Rig, code: int, status: str, expected: type[BridgeError]
) -> None:
    said = {"error": {"code": code, "status": status, "message": f"no {CANARY_TOKEN}1"}}
    vertex.api.will_say(refused(said))
    with pytest.raises(expected) as caught:
        texts(vertex)
    assert CANARY_TOKEN not in "".join(traceback.format_exception(caught.value))
    assert len(vertex.api.asked) == 1


# --- tokens ------------------------------------------------------------------------------------------


def test_no_token_is_fetched_before_the_first_call(vertex: Rig) -> None:
    assert vertex.tokens.asked == []
    vertex.upstream.stream(REQUEST).close()
    assert vertex.tokens.asked == []


def test_concurrent_requests_fetch_one_token(vertex: Rig) -> None:
    vertex.tokens.delay = 0.2
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.extend(texts(vertex))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == ["Hello."] * 16
    assert len(vertex.tokens.asked) == 1
    assert set(bearers(vertex)) == {"1"}


def test_a_token_that_expires_is_replaced_and_the_request_is_retried(vertex: Rig) -> None:
    assert texts(vertex) == ["Hello."]
    vertex.api.will_say(refused(), sse(text_chunk("Still here.", "STOP")))
    assert texts(vertex) == ["Still here."]
    assert bearers(vertex) == ["1", "1", "2"]


def test_concurrent_requests_with_an_expired_token_fetch_one_token(vertex: Rig) -> None:
    texts(vertex)
    vertex.tokens.delay = 0.2
    vertex.api.will_answer(
        lambda asked: (
            refused()
            if asked.headers["authorization"].endswith(f"{CANARY_TOKEN}1")
            else sse(text_chunk("Again.", "STOP"))
        )
    )
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.extend(texts(vertex))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == ["Again."] * 8
    assert len(vertex.tokens.asked) == 2


def test_a_token_that_is_always_refused_is_a_misconfiguration(vertex: Rig) -> None:
    vertex.api.will_answer(lambda _asked: refused())
    with pytest.raises(errors.UpstreamMisconfigured, match="401 UNAUTHENTICATED"):
        texts(vertex)
    assert bearers(vertex) == ["1", "2"]


def test_the_reader_gets_control_during_the_token_fetch(vertex: Rig) -> None:
    vertex.tokens.free.clear()
    batches = iter(vertex.upstream.stream(REQUEST))
    assert [next(batches) for _ in range(3)] == [(), (), ()]
    vertex.tokens.free.set()
    assert len([batch for batch in batches if batch]) == 1


def test_closing_during_the_token_fetch_sends_no_request(vertex: Rig) -> None:
    vertex.tokens.free.clear()
    stream = vertex.upstream.stream(REQUEST)
    batches = iter(stream)
    assert next(batches) == ()
    stream.close()
    batches.close()  # type: ignore[attr-defined]
    vertex.tokens.free.set()
    time.sleep(0.3)
    assert vertex.api.asked == []


def test_a_token_near_expiry_is_renewed_without_stopping_running_calls(
    vertex: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.upstream.auth.access_tokens.BETWEEN_TRIES", 0)
    vertex.tokens.lifetime = 100
    texts(vertex)
    vertex.tokens.free.clear()
    vertex.tokens.lifetime = 3600
    assert texts(vertex) == ["Hello."]
    assert bearers(vertex) == ["1", "1"]
    vertex.tokens.free.set()
    assert eventually(lambda: texts(vertex) and bearers(vertex)[-1] == "2")
    assert len(vertex.tokens.asked) == 2


def test_wrong_credentials_and_an_unreachable_token_server_are_different_errors(
    set_up: SetUp, tmp_path: Path
) -> None:
    vertex = set_up("vertex")
    vertex.tokens.will_fail(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
    with pytest.raises(errors.UpstreamMisconfigured, match="invalid_grant"):
        texts(vertex)
    nowhere = f"http://127.0.0.1:{free_port()}/token"
    upstream = make(environment("vertex", vertex.api.address, nowhere, tmp_path / "other"))
    with pytest.raises(errors.UpstreamUnreachable, match="token server"):
        read(upstream, REQUEST)
    assert vertex.api.asked == []


# --- settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("global", "https://aiplatform.googleapis.com"),
        ("europe-west4", "https://europe-west4-aiplatform.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_the_host_depends_on_the_location(tmp_path: Path, location: str, address: str) -> None:
    environ = environment("vertex", "http://unused.test", "http://unused.test", tmp_path)
    del environ["BRIDGE_VERTEX__BASE_URL"]
    upstream = make({**environ, "GOOGLE_CLOUD_LOCATION": location})
    assert isinstance(upstream, VertexUpstream)
    call = upstream._stream_call(REQUEST)
    place = f"/v1beta1/projects/canary-project/locations/{location}/publishers/google/models"
    assert call.url == f"{address}{place}/gemini-x:streamGenerateContent?alt=sse"


def start(**environ: str) -> Any:
    return make_upstream(load(CONFIG, {"BRIDGE_UPSTREAM__TRANSPORT": "vertex", **environ}))


def complaint(**environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        start(**environ)
    return str(caught.value)


def test_starting_without_a_project_says_what_to_set() -> None:
    assert "GOOGLE_CLOUD_PROJECT" in complaint()


def test_the_configured_project_overrides_the_file(set_up: SetUp) -> None:
    vertex = set_up("vertex", GOOGLE_CLOUD_PROJECT="another-project")
    texts(vertex)
    assert vertex.api.asked[0].path.startswith("/v1beta1/projects/another-project/")


def test_default_credentials_need_no_file_and_no_network_at_start() -> None:
    start(GOOGLE_CLOUD_PROJECT="p")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "is not JSON"),
        ("[1]", "is not a Google credential file"),
        ('{"type": "service_account"}', "no usable service account key"),
        (
            json.dumps({**service_account("http://t.test"), "private_key": "secret-canary"}),
            "no usable service account key",
        ),
        (
            json.dumps({**service_account("http://t.test"), "private_key": 7}),
            "no usable service account key",
        ),
    ],
)
def test_an_invalid_credential_file_fails_at_start_and_is_not_quoted(
    tmp_path: Path, text: str | None, told: str
) -> None:
    path = tmp_path / "key.json"
    if text is not None:
        path.write_text(text)
    said = complaint(GOOGLE_APPLICATION_CREDENTIALS=str(path))
    assert told in said
    assert said.startswith(f"environment GOOGLE_APPLICATION_CREDENTIALS: {path}")
    assert "secret-canary" not in said


def test_the_file_may_be_a_systemd_credential(
    tmp_path: Path, api: ScriptedGemini, tokens: TokenServer
) -> None:
    (tmp_path / "google_credentials").write_bytes(orjson.dumps(service_account(tokens.address)))
    upstream = start(CREDENTIALS_DIRECTORY=str(tmp_path), BRIDGE_VERTEX__BASE_URL=api.address)
    read(upstream, REQUEST)
    assert api.asked[0].headers["authorization"] == f"Bearer {CANARY_TOKEN}1"
    assert "/locations/global/" in api.asked[0].path


def test_starting_without_the_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_google(name: str, *args: Any) -> Any:
        if name.startswith("google"):
            raise ModuleNotFoundError(f"No module named {name!r}", name="google.auth")
        return imported(name, *args)

    monkeypatch.delitem(sys.modules, "bridge.upstream.auth.google_auth", raising=False)
    monkeypatch.delattr("bridge.upstream.auth.google_auth", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_google)
    assert "pip install 'gemini-bridge[vertex]'" in complaint(GOOGLE_CLOUD_PROJECT="p")
