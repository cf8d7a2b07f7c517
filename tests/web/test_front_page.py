"""GET /: JSON for programs, an HTML page for people, and no secrets or injected content on it."""

from __future__ import annotations

import base64
import hashlib
import html
import re
import socket
import time
from pathlib import Path

import pytest
import requests
from gunicorn_bridge import ROOT, gunicorn_bridge
from html_checker import HtmlChecker

from bridge import __version__
from bridge.connect.clients import CLIENTS
from bridge.errors import UpstreamUnreachable
from bridge.settings import load
from bridge.upstream.base import Upstream
from bridge.upstream.listed_models import SHORT_WAIT
from bridge.web.app import create_app

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
KEY = "AIzaCanary0123456789abcdefghijklmnopqrs"


class Listing(Upstream):
    """An upstream that only lists its models, optionally with a delay or an error."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.delay = 0.0
        self.error: Exception | None = None
        self.asked = 0

    def models(self):
        self.asked += 1
        time.sleep(self.delay)
        if self.error:
            raise self.error
        methods = {"embedder": ["embedContent"]}
        return [
            {"name": f"models/{name}", "supportedGenerationMethods": methods.get(name, ["generateContent"])}
            for name in self.names
        ]

    def stream(self, request):
        raise NotImplementedError

    def count_tokens(self, request):
        raise NotImplementedError


@pytest.fixture
def upstream() -> Listing:
    return Listing("gemini-3.1-pro-preview", "gemini-3.8-flash", "embedder")


@pytest.fixture
def identity(upstream: Listing, tmp_path: Path):
    def page(host: str | None = None, **environ: str) -> str:
        settings = load(environ={"BRIDGE_STATE_DIR": str(tmp_path), "GEMINI_API_KEY": KEY, **environ})
        client = create_app(settings, upstream).test_client()
        answer = client.get("/", headers=BROWSER | ({"Host": host} if host else {}))
        assert answer.status_code == 200
        assert answer.content_type == "text/html; charset=utf-8"
        return answer.text

    return page


@pytest.fixture
def client(upstream: Listing, tmp_path: Path):
    return create_app(load(environ={"BRIDGE_STATE_DIR": str(tmp_path)}), upstream).test_client()


# --- JSON or HTML ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/json, text/html;q=0.5", "application/json"),
        ("text/html;q=0", "application/json"),
        ("text/html", "text/html"),
        (BROWSER["Accept"], "text/html"),
        ("nonsense", "application/json"),
    ],
)
def test_html_is_served_only_to_clients_that_accept_it(client, accept, kind):
    answer = client.get("/", headers={"Accept": accept} if accept else {})
    assert (answer.status_code, answer.mimetype) == (200, kind)
    assert answer.headers["Vary"] == "Accept"


def test_programs_get_name_version_and_endpoints_as_json(client):
    told = client.get("/").json
    assert (told["name"], told["version"], told["upstream"]) == ("gemini-bridge", __version__, "demo")
    assert len(told["endpoints"]) == len(set(told["endpoints"]))
    assert {
        "POST /v1/chat/completions",
        "POST /v1/responses/compact",
        "POST /v1/conversations",
        "DELETE /v1/conversations/{conversation_id}/items/{item_id}",
        "GET /v1/responses/{answer_id}",
        "POST /v1beta/models/{model}:{generateContent|streamGenerateContent}",
        "GET /v1/models/{name}",
        "GET /openapi.json",
    } <= set(told["endpoints"])


def test_a_head_request_like_claude_codes_is_answered(client):
    for headers in ({"User-Agent": "Bun/1.4.0"}, BROWSER):
        answer = client.head("/", headers=headers)
        assert answer.status_code == 200
        assert answer.data == b""


# --- content of the page -----------------------------------------------------------------------------


def test_every_client_has_its_settings_for_the_public_address(identity):
    page = identity("evil.example", BRIDGE_SERVER__PUBLIC_URL="http://bridge.example:8080/")
    assert "evil.example" not in page
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    for client in CLIENTS.values():
        assert client.title in text
        for snippet in client.snippets:
            assert snippet.place in text
    assert 'base_url = "http://bridge.example:8080/v1"' in text
    assert "export ANTHROPIC_BASE_URL=http://bridge.example:8080\n" in text
    assert "gbk_your_key" in text
    assert __version__ in text


def test_the_page_lists_chat_models_and_their_aliases(identity):
    page = identity()
    assert "<li><code>gemini-3.1-pro-preview</code></li>" in page
    assert "embedder" not in page
    assert "<td><code>gpt-5</code></td><td><code>gemini-pro-latest</code></td>" in page


def test_the_page_shows_the_operators_text_on_keys_and_models(identity):
    page = identity(
        BRIDGE_CONNECT__HELP="Ask it@company & <friends>.", BRIDGE_CONNECT__MODEL="gemini-3.1-pro-preview"
    )
    assert "Ask it@company &amp; &lt;friends&gt;." in page
    assert "<option selected>gemini-3.1-pro-preview</option>" in page


def test_the_page_describes_the_bridges_state(identity, upstream):
    assert "</span>Ready</p>" in identity()
    assert "This is the demo model" in identity(BRIDGE_UPSTREAM__TRANSPORT="demo")
    upstream.error = UpstreamUnreachable("no route")
    assert "</span>Gemini does not answer</p>" in identity()
    assert "not available right now" in identity()


def test_an_upstream_that_hangs_does_not_hang_the_page(upstream, tmp_path):
    upstream.delay = 30 * SHORT_WAIT
    app = create_app(load(environ={"BRIDGE_STATE_DIR": str(tmp_path), "GEMINI_API_KEY": KEY}), upstream)
    client = app.test_client()
    times = []
    for _ in range(3):
        began = time.monotonic()
        assert "not available right now" in client.get("/", headers=BROWSER).text
        times.append(time.monotonic() - began)
    assert times[0] < 10 * SHORT_WAIT
    assert min(times[1:]) < SHORT_WAIT  # one request fetches the list, the others do not wait
    assert upstream.asked == 1


def test_the_model_list_is_fetched_once_and_shared_with_the_api(client, upstream):
    for _ in range(3):
        client.get("/", headers=BROWSER)
        client.get("/v1/models")
    assert upstream.asked == 1


# --- security ----------------------------------------------------------------------------------------

EVIL = [
    'a"><script>alert(1)</script>',
    "evil.example/path",
    "user:pass@evil.example",
    "evil host",
    "x'$(id)'",
    "-o-ProxyCommand",
    "a." * 150,
    "evil.example:99999999",
    "[::1",
    "bücher.example",
    "javascript:alert(1)",
]


@pytest.mark.parametrize("host", EVIL)
def test_an_invalid_host_header_is_not_shown(identity, host):
    page = identity(host)
    assert host not in page
    assert html.escape(host) not in page
    assert "http://127.0.0.1:41242" in page
    assert HtmlChecker(page).problems == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:41242", socket.gethostname()])
def test_a_local_host_header_is_shown(identity, host):
    assert f"http://{host}</code>" in identity(host)


@pytest.mark.parametrize("host", ["bridge", "evil.example", "10.0.0.7:8080", "localhost.evil.example"])
def test_a_foreign_host_header_is_not_shown_as_the_bridges_address(identity, host):
    page = identity(host)
    assert f"//{host}" not in page
    assert "http://127.0.0.1:41242</code>" in page


def test_the_configured_host_is_shown(identity):
    environ = {"BRIDGE_SERVER__HOST": "bridge.example", "BRIDGE_ACCESS__OPEN": "true"}
    assert "http://bridge.example:41242</code>" in identity("bridge.example:41242", **environ)


def test_the_page_holds_no_key_and_nothing_of_the_request(identity, client):
    assert KEY not in identity()
    page = client.get(
        "/?q=canary-query", headers=BROWSER | {"Authorization": "Bearer canary", "Cookie": "canary=1"}
    )
    assert "canary" not in page.text


def test_the_content_security_policy_allows_only_the_pages_own_code(client):
    answer = client.get("/", headers=BROWSER)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert policy[rule] == f"'sha256-{digest}'"
    assert policy["default-src"] == "'none'"
    assert {policy[rule] for rule in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_page_is_well_formed_and_fetches_nothing(identity):
    page = identity()
    assert HtmlChecker(page).problems == []
    assert "http://www.w3.org/2000/svg" in page  # a namespace, not a link
    assert set(re.findall(r"https?://[^/\"'&<) ]+", page)) <= {"http://www.w3.org", "http://localhost"}


@pytest.mark.parametrize(
    ("mistake", "problem"),
    [
        (("</main>", ""), "left open"),
        (('id="models"', 'id="clients"'), "stands twice"),
        (('<a href="#curl"', '<a href="#nowhere"'), "refers to nowhere"),
        (("<h1>", '<h1 style="color: red">'), "policy forbids"),
        (('href="/healthz"', 'href="https://elsewhere/"'), "outside"),
        (("<h1>", "<h1><p></p>"), "<p> inside <h1>"),
    ],
)
def test_the_checker_finds_mistakes(identity, mistake, problem):
    broken = identity().replace(*mistake, 1)
    assert any(problem in each for each in HtmlChecker(broken).problems)


# --- appearance --------------------------------------------------------------------------------------

STYLE = (ROOT / "bridge/web/templates/front.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in STYLE.split("@media", 2)[:2])


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground", "least"),
    [
        *(("ink", ground, 7.0) for ground in ("paper", "sheet", "code")),
        *((ink, ground, 4.5) for ink in ("soft", "accent") for ground in ("paper", "sheet", "code")),
        *((ink, "code", 4.5) for ink in ("string", "comment")),
        ("accent", "wash", 4.5),
        ("marked", "mark", 4.5),
        ("edge", "sheet", 3.0),
        ("good", "sheet", 3.0),
        ("fair", "sheet", 3.0),
    ],
)
def test_text_has_enough_contrast(palette, ink, ground, least):
    assert contrast(palette[ink], palette[ground]) >= least


# --- behind a proxy ----------------------------------------------------------------------------------


def address_shown(bridge: str, **headers: str) -> str:
    page = requests.get(bridge, headers=BROWSER | headers, timeout=20).text
    return re.search(r'<code id="address">(.*?)</code>', page)[1]


def test_scheme_and_host_of_a_trusted_proxy_are_used(demo_bridge):
    told = {"Host": "localhost", "X-Forwarded-Proto": "https"}
    assert address_shown(demo_bridge.address, **told) == "https://localhost"
    assert address_shown(demo_bridge.address, Host="bridge.company") == demo_bridge.address
    assert address_shown(demo_bridge.address) == demo_bridge.address
    assert "evil" not in address_shown(demo_bridge.address, **{"X-Forwarded-Host": "evil.example"})


def test_the_scheme_of_an_untrusted_client_is_ignored():
    with gunicorn_bridge(FORWARDED_ALLOW_IPS="10.0.0.1") as bridge:
        assert address_shown(bridge.address, **{"X-Forwarded-Proto": "https"}) == bridge.address


def test_under_gunicorn_a_foreign_host_header_is_not_shown(demo_bridge):
    for host in EVIL:
        if host.isascii():
            answer = requests.get(demo_bridge.address, headers=BROWSER | {"Host": host}, timeout=20)
            assert host not in answer.text


# --- the catalogue for Codex -------------------------------------------------------------------------


def catalogue(upstream: Listing, folder: Path) -> dict[str, dict[str, object]]:
    settings = load(environ={"BRIDGE_STATE_DIR": str(folder), "GEMINI_API_KEY": KEY})
    answer = create_app(settings, upstream).test_client().get("/connect/codex-models.json")
    assert (answer.status_code, answer.mimetype) == (200, "application/json")
    assert KEY not in answer.text
    return {model["slug"]: model for model in answer.json["models"]}


def test_the_catalogue_lists_chat_models_with_their_context_windows(upstream, tmp_path):
    models = catalogue(upstream, tmp_path)
    assert "embedder" not in models
    assert models["gemini-3.8-flash"]["context_window"] == 1048576
    assert models["gemini-3.8-flash"]["visibility"] == "list"
    assert models["gpt-5"]["visibility"] == "hide", "one of our names for another model"
    assert [model["priority"] for model in models.values()] == [*range(len(models))]


def test_the_catalogue_is_served_while_gemini_is_unreachable(upstream, tmp_path):
    upstream.error = UpstreamUnreachable("down")
    models = catalogue(upstream, tmp_path)
    assert models["gemini-flash-latest"]["context_window"] == 1048576


def test_an_unknown_context_window_is_left_to_codex(upstream, tmp_path):
    upstream.names = ("gemini-99-unknown",)
    assert "context_window" not in catalogue(upstream, tmp_path)["gemini-99-unknown"]
