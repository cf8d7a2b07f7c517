"""The doctor's checks of the upstream: real sockets, real TLS, wrong clocks, refused keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from certificates import make_certificate, needs_openssl
from gunicorn_bridge import free_port
from scripted_gemini import Reply, ScriptedGemini
from scripted_tokens import TokenServer
from small_server import answering, intercepting_proxy
from upstream_rigs import environment

from bridge.doctor.configuration import PARTS
from bridge.doctor.finding import Installation, Level
from bridge.doctor.models import check_models
from bridge.doctor.upstream import check_certificate, check_clock, check_keys, check_route

GOOGLE = "generativelanguage.googleapis.com"
BAD_KEY = {
    "error": {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
    }
}
LIMITED = {"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED"}}
MODELS = ("gemini-flash-latest", "gemini-pro-latest")


def listed(*names: str) -> bytes:
    rows = [{"name": f"models/{name}", "supportedGenerationMethods": ["generateContent"]} for name in names]
    return json.dumps({"models": rows}).encode()


def gemini(good_key: str = "", models: tuple[str, ...] = MODELS, refusal=(400, BAD_KEY)):
    """An upstream that lists its models to clients with the right key."""

    def answer(_path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if headers.get("x-goog-api-key") == good_key:
            return 200, {}, listed(*models)
        status, body = refusal
        return status, {}, json.dumps(body).encode()

    return answering(answer)


def every_check(made) -> list:
    looks = (check_route, check_certificate, check_clock, check_keys, check_models)
    return [look(made) for look in looks]


def test_the_demo_model_needs_no_network_checks(installation) -> None:
    found = every_check(installation())
    assert [each.level for each in found].count(Level.GREEN) == 4
    assert check_keys(installation()).level is Level.YELLOW


# --- keys and models ---------------------------------------------------------------------------------


def test_a_valid_key_is_green(installation, canary_key: str) -> None:
    with gemini(canary_key) as address:
        found = check_keys(installation(GEMINI_API_KEY=canary_key, GOOGLE_GEMINI_BASE_URL=address))
    assert found.level is Level.GREEN


def test_a_refused_key_is_named_by_its_position(installation, canary_key: str) -> None:
    with gemini("good-key-for-tests") as address:
        made = installation(GEMINI_API_KEY=f"good-key-for-tests,{canary_key}", GOOGLE_GEMINI_BASE_URL=address)
        found = check_keys(made)
    assert found.level is Level.RED
    assert found.says.startswith("key 2 of 2: ")
    assert "API_KEY_INVALID" in found.says
    assert canary_key not in found.says + found.remedy


def test_a_key_without_quota_is_yellow(installation, canary_key: str) -> None:
    with gemini("another", refusal=(429, LIMITED)) as address:
        found = check_keys(installation(GEMINI_API_KEY=canary_key, GOOGLE_GEMINI_BASE_URL=address))
    assert found.level is Level.YELLOW


def test_an_unreachable_upstream_is_reported_by_every_check(installation, canary_key: str) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    found = every_check(installation(GEMINI_API_KEY=canary_key, GOOGLE_GEMINI_BASE_URL=nowhere))
    assert [each.level for each in found] == [Level.RED, Level.RED, Level.YELLOW, Level.RED, Level.YELLOW]
    assert all("curl -v" in each.remedy for each in found[:4])
    assert not any(canary_key in each.says + each.remedy for each in found)


def test_an_address_that_is_not_the_api_is_reported(installation, canary_key: str) -> None:
    with answering(lambda *_: (404, {}, b"<html>")) as address:
        found = check_keys(installation(GEMINI_API_KEY=canary_key, GOOGLE_GEMINI_BASE_URL=address))
    assert found.level is Level.RED
    assert "it is not the Gemini API" in found.says


# --- clock -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shift", "level", "said"),
    [
        (0, Level.GREEN, "agrees with the upstream's clock"),
        (-3600, Level.RED, "seconds ahead"),
        (3600, Level.RED, "seconds behind"),
        (-120, Level.YELLOW, "seconds ahead"),
    ],
)
def test_a_wrong_clock_is_reported(installation, shift: int, level: Level, said: str) -> None:
    def dated(*_) -> tuple[int, dict[str, str], bytes]:
        return (
            403,
            {"Date": format_datetime(datetime.now(UTC) + timedelta(seconds=shift), usegmt=True)},
            b"{}",
        )

    with answering(dated) as address:
        found = check_clock(installation(GEMINI_API_KEY="some-key", GOOGLE_GEMINI_BASE_URL=address))
    assert found.level is level
    assert said in found.says


@pytest.mark.parametrize("headers", [{}, {"Date": "half past nine"}])
def test_an_upstream_without_a_date_header_is_yellow(installation, headers: dict[str, str]) -> None:
    with answering(lambda *_: (403, headers, b"{}")) as address:
        found = check_clock(installation(GEMINI_API_KEY="some-key", GOOGLE_GEMINI_BASE_URL=address))
    assert found.level is Level.YELLOW


def test_clock_and_certificate_checks_send_no_key(installation, canary_key: str) -> None:
    seen = []
    with answering(lambda path, headers: seen.append((path, headers)) or (403, {}, b"{}")) as address:
        made = installation(GEMINI_API_KEY=canary_key, GOOGLE_GEMINI_BASE_URL=address)
        check_clock(made)
        check_certificate(made)
    assert len(seen) == 2
    assert canary_key not in str(seen)


# --- certificate and route ---------------------------------------------------------------------------


@needs_openssl
@pytest.mark.parametrize(
    ("organisation", "level", "said"),
    [
        ("Example Company", Level.YELLOW, f"{GOOGLE} was issued by Example Company, not by Google"),
        ("Google Trust Services", Level.GREEN, f"{GOOGLE}, issued by Google Trust Services"),
    ],
)
def test_an_intercepting_proxy_is_reported(
    installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, organisation: str, level: Level, said: str
) -> None:
    made = make_certificate(tmp_path, GOOGLE, organisation=organisation)
    with intercepting_proxy(made) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(made.certificate))
        found = check_certificate(installation(GEMINI_API_KEY="some-key"))
    assert found.level is level
    assert said in found.says


@needs_openssl
def test_an_untrusted_proxy_ca_is_reported_with_a_remedy(
    installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with intercepting_proxy(make_certificate(tmp_path, GOOGLE)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        found = check_certificate(installation(GEMINI_API_KEY="some-key"))
    assert found.level is Level.RED
    assert "SSL_CERT_FILE" in found.remedy


@needs_openssl
def test_a_custom_upstream_may_have_any_trusted_certificate(
    installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_certificate(tmp_path, "localhost", "127.0.0.1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(made.certificate))
    with answering(lambda *_: (403, {}, b"{}"), made) as address:
        found = check_certificate(installation(GEMINI_API_KEY="some-key", GOOGLE_GEMINI_BASE_URL=address))
    assert found.level is Level.GREEN


def test_an_upstream_without_tls_is_yellow(installation) -> None:
    with answering(lambda *_: (403, {}, b"{}")) as address:
        found = check_certificate(installation(GEMINI_API_KEY="some-key", GOOGLE_GEMINI_BASE_URL=address))
    assert found.level is Level.YELLOW
    assert "not encrypted" in found.says


@needs_openssl
def test_the_route_check_names_proxy_and_ca_bundle_but_no_password(
    installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_certificate(tmp_path, GOOGLE)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(made.certificate))
    with answering(lambda *_: (403, {}, b"{}")) as address:
        found = check_route(installation(GEMINI_API_KEY="some-key", GOOGLE_GEMINI_BASE_URL=address))
    assert "no proxy" in found.says
    with intercepting_proxy(made) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.replace("http://", "http://user:hunter2@"))
        found = check_route(installation(GEMINI_API_KEY="some-key"))
    assert found.level is Level.GREEN
    assert f"through proxy {proxy}" in found.says
    assert f"{made.certificate} (REQUESTS_CA_BUNDLE)" in found.says
    assert "hunter2" not in found.says


def test_a_missing_ca_bundle_is_reported(installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/ca.pem")
    found = check_route(installation(GEMINI_API_KEY="some-key"))
    assert found.level is Level.RED
    assert "/no/such/ca.pem" in found.says


# --- upstreams with a login --------------------------------------------------------------------------


@pytest.fixture
def google() -> Iterator[ScriptedGemini]:
    with closing(ScriptedGemini()) as scripted:
        yield scripted


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with closing(TokenServer()) as server:
        yield server


@pytest.fixture(params=["vertex", "code_assist"])
def login(request, installation, google: ScriptedGemini, tokens: TokenServer, tmp_path: Path) -> Installation:
    return installation(**environment(request.param, google.address, tokens.address, tmp_path / "config"))


def said(status: int, body: dict[str, Any]) -> Reply:
    return Reply([json.dumps(body).encode()], status)


def test_a_valid_login_is_green(login: Installation, google: ScriptedGemini) -> None:
    google.will_answer(lambda _: said(200, {"totalTokens": 1}))
    found = check_keys(login)
    assert found.level is Level.GREEN
    assert "the login works" in found.says
    assert "countTokens" in google.asked[-1].path


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"error": {"code": 404, "status": "NOT_FOUND", "message": "no such model"}}),
        (404, {"message": "no route"}),
        (429, LIMITED),
        (503, {"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}}),
    ],
)
def test_an_error_unrelated_to_the_login_is_yellow(
    login: Installation, google: ScriptedGemini, status: int, body: dict[str, Any]
) -> None:
    google.will_answer(lambda _: said(status, body))
    assert check_keys(login).level is Level.YELLOW


def test_code_assist_without_a_project_is_red(
    installation, google: ScriptedGemini, tokens: TokenServer, tmp_path: Path
) -> None:
    given = environment("code_assist", google.address, tokens.address, tmp_path / "config")
    google.will_answer(lambda asked: said(200, {} if "load" in asked.path else {"totalTokens": 1}))
    found = check_keys(installation(**{**given, "GOOGLE_CLOUD_PROJECT": ""}))
    assert found.level is Level.RED
    assert "project" in found.says


def test_a_login_without_permission_is_red(login: Installation, google: ScriptedGemini) -> None:
    denied = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "no right"}}
    google.will_answer(lambda _: said(403, denied))
    found = check_keys(login)
    assert found.level is Level.RED
    assert "UPSTREAMS.md" in found.remedy


def test_an_unknown_login_is_red(login: Installation, google: ScriptedGemini, tokens: TokenServer) -> None:
    unknown = {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "who?"}}
    google.will_answer(lambda _: said(401, unknown))
    tokens.will_fail(400, {"error": "invalid_grant", "error_description": "Bad Request"})
    found = check_keys(login)
    assert found.level is Level.RED
    assert "UPSTREAMS.md" in found.remedy


def test_route_and_clock_checks_use_the_active_upstream(login: Installation, google: ScriptedGemini) -> None:
    assert check_clock(login).says == "agrees with the upstream's clock"
    assert google.address in check_certificate(login).says
    assert PARTS["upstream"](login.settings).startswith(f"{google.address}, one ")
