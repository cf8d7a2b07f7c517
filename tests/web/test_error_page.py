"""Errors as pages in a browser, and as JSON for every program."""

from __future__ import annotations

from html import unescape

import pytest
from client_keys import ClientKeys
from html_checker import HtmlChecker

from bridge.access import key_cache
from bridge.settings import load
from bridge.state.key_store import Rules
from bridge.web.app import create_app
from bridge.web.front import FRONT
from bridge.web.page import asset, policy

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture(autouse=True)
def looks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "BETWEEN_LOOKS", 0)


@pytest.fixture
def make_app(tmp_path):
    def make(**environ: str):
        return create_app(load(environ={"BRIDGE_STATE_DIR": str(tmp_path), **environ}))

    return make


@pytest.fixture
def client(make_app):
    return make_app().test_client()


@pytest.fixture
def failing(make_app):
    """A bridge whose page at / fails."""
    app = make_app()

    def fail():
        raise RuntimeError("secret details")

    app.view_functions[f"{FRONT}.front"] = fail
    return app.test_client()


def checked(answer, status: int) -> str:
    assert (answer.status_code, answer.content_type) == (status, "text/html; charset=utf-8")
    assert HtmlChecker(answer.text).problems == []
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Vary"] == "Accept"
    style = asset("front.css") + asset("account.css")
    assert answer.headers["Content-Security-Policy"] == policy(style)
    assert answer.headers["X-Request-Id"] in answer.text
    return unescape(answer.text)


def test_an_unknown_address_is_a_page_in_a_browser(client):
    page = checked(client.get("/nothing", headers=BROWSER), 404)
    assert "There is no such page" in page
    assert "There is no route GET /nothing" in page
    for link in ("/", "/me", "/docs"):
        assert f'href="{link}"' in page
        assert client.get(link, headers=BROWSER).status_code == 200


def test_with_keys_an_unknown_address_says_whom_to_ask(make_app, tmp_path):
    ClientKeys(tmp_path).add("alice", Rules())
    client = make_app(BRIDGE_CONNECT__HELP="Ask <it@company>.").test_client()
    answer = client.get("/nothing", headers=BROWSER)
    page = checked(answer, 401)
    assert "This address needs a key" in page
    assert "Ask &lt;it@company&gt;." in answer.text
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    for link in ("/", "/docs"):
        assert client.get(link, headers=BROWSER).status_code == 200


def test_a_failure_is_a_page_without_its_details(failing):
    page = checked(failing.get("/", headers=BROWSER), 500)
    assert "The bridge made a mistake" in page
    assert "secret details" not in page


def test_a_hidden_page_does_not_link_to_itself(client):
    answer = client.get("/me", headers=BROWSER, environ_base={"REMOTE_ADDR": "10.1.2.3"})
    assert 'href="/me"' not in checked(answer, 404)


def test_a_form_of_another_site_is_refused_with_a_page(client):
    answer = client.post("/me/sign-in", headers={**BROWSER, "Origin": "http://evil.example"})
    assert "open /me and try again" in checked(answer, 403)


def test_the_path_cannot_inject_anything(client):
    answer = client.get("/<script>alert(1)</script>", headers=BROWSER)
    checked(answer, 404)
    assert "<script" not in answer.text


def test_head_has_the_head_of_the_page_only(client):
    answer = client.head("/nothing", headers=BROWSER)
    assert (answer.status_code, answer.mimetype, answer.data) == (404, "text/html", b"")


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/nothing", {}),
        ("GET", "/nothing", {"Accept": "*/*"}),
        ("GET", "/nothing", {"Accept": "application/json, text/html;q=0.5"}),
        ("GET", "/nothing", {**BROWSER, "Authorization": "Bearer gbk_x"}),
        ("GET", "/nothing", {**BROWSER, "x-api-key": "gbk_x"}),
        ("GET", "/v1/nothing", BROWSER),
        ("GET", "/v1", BROWSER),
        ("GET", "/v1beta/models/none/such", BROWSER),
        ("GET", "/v1/chat/completions", BROWSER),
        ("POST", "/v1/chat/completions", BROWSER),
        ("POST", "/v1/messages", BROWSER),
        ("POST", "/chat/completions", BROWSER),
    ],
)
def test_a_program_always_gets_json(client, method, path, headers):
    answer = client.open(path, method=method, headers=headers)
    assert answer.status_code in (400, 404, 405)
    assert answer.mimetype == "application/json"
    assert answer.json["error"]["message"]
