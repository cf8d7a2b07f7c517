"""The nginx example, in a real nginx in front of a real bridge."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import requests
from certificates import needs_openssl
from gunicorn_bridge import ROOT, Bridge, free_port, gunicorn_bridge
from nginx_proxy import NGINX, NginxProxy, nginx_proxy, written
from requests.adapters import HTTPAdapter
from scripted_gemini import ScriptedGemini, sse, text_chunk
from waiting import eventually

from bridge.doctor.finding import Installation, Level
from bridge.doctor.service import check_public_address
from bridge.settings import load

pytestmark = [pytest.mark.skipif(NGINX is None, reason="nginx is not installed"), needs_openssl]

HELLO = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}
TOO_MUCH = b" " * (64 * 1024 * 1024 + 1)


@pytest.fixture(scope="module")
def bridge(_gemini: ScriptedGemini, canary_key: str) -> Iterator[Bridge]:
    """An open bridge: it has no keys and serves a proxy."""
    with gunicorn_bridge(
        GEMINI_API_KEY=canary_key, GOOGLE_GEMINI_BASE_URL=_gemini.address, BRIDGE_ACCESS__OPEN="true"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def front(bridge: Bridge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NginxProxy]:
    with nginx_proxy(tmp_path_factory.mktemp("nginx"), bridge.address) as running:
        yield running


def post(front: NginxProxy, path: str = "/v1/chat/completions", **options) -> requests.Response:
    return requests.post(
        f"{front.address}{path}", timeout=60, verify=front.certificate, **{"json": HELLO, **options}
    )


def test_nginx_accepts_the_example(tmp_path: Path) -> None:
    command = written(tmp_path, free_port(), "http://127.0.0.1:41242")
    tried = subprocess.run([*command, "-t"], capture_output=True, text=True, timeout=30, check=False)
    assert tried.returncode == 0, tried.stderr
    assert "[emerg]" not in tried.stderr


def test_chunks_pass_unbuffered(front: NginxProxy, gemini: ScriptedGemini) -> None:
    one, two = threading.Event(), threading.Event()
    said = [*sse(text_chunk("one ")), lambda: one.wait(60), *sse(text_chunk("two ")), lambda: two.wait(60)]
    gemini.will_say([*said, *sse(text_chunk("three", "STOP"))])
    with post(front, json={**HELLO, "stream": True}, stream=True) as answer:
        lines = answer.iter_lines()
        assert next(line for line in lines if b"one " in line)
        one.set()
        assert next(line for line in lines if b"two " in line)
        two.set()
        assert b"three" in b"".join(lines)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/chat/completions", lambda body: body["error"]["code"] == "request_too_large"),
        ("/v1/responses", lambda body: body["error"]["code"] == "request_too_large"),
        ("/v1/messages", lambda body: body["error"]["type"] == "request_too_large"),
        ("/v1beta/models/m:generateContent", lambda body: body["error"]["code"] == 413),
    ],
)
def test_a_body_above_64_mb_is_refused_in_the_protocols_envelope(
    front: NginxProxy, gemini, path, told
) -> None:
    answer = post(front, path, json=None, data=TOO_MUCH)
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/json"
    assert told(answer.json())
    assert not gemini.asked
    assert post(front).status_code == 200


def test_a_body_just_below_64_mb_passes(front: NginxProxy, gemini: ScriptedGemini) -> None:
    body = json.dumps(HELLO).encode()
    assert post(front, json=None, data=body + b" " * (63 << 20)).status_code == 200


def test_a_client_disconnect_reaches_the_bridge(
    front: NginxProxy, bridge: Bridge, gemini: ScriptedGemini
) -> None:
    gemini.will_say([*sse(text_chunk("more ")), 30.0, *sse(text_chunk("yet", "STOP"))])
    headers = {"X-Request-Id": "left-by-nginx"}
    with post(front, json={**HELLO, "stream": True}, stream=True, headers=headers) as answer:
        next(answer.iter_content(10))
    line = bridge.request(request_id="left-by-nginx")
    assert line["outcome"] == "client_left"
    assert line["duration_ms"] < 5000


def test_no_log_holds_a_query_string(front: NginxProxy, gemini: ScriptedGemini, canary_key: str) -> None:
    refused = '"path":"/v1/messages","status":413'
    before = front.logs().count(refused)
    for path in ("/v1/chat/completions", "/v1/nothing"):
        post(front, f"{path}?key={canary_key}")
    post(front, f"/v1/messages?key={canary_key}", json=None, data=TOO_MUCH)
    assert eventually(lambda: front.logs().count(refused) > before)
    assert canary_key not in front.logs()
    for line in (front.folder / "gemini-bridge.log").read_text().splitlines():
        json.loads(line)


def test_one_request_id_is_in_both_logs_and_the_response(front: NginxProxy, bridge: Bridge, gemini) -> None:
    given = post(front).headers["x-request-id"]
    assert bridge.request(request_id=given)
    assert front.logged(f'"request_id":"{given}"')


def test_the_doctor_accepts_the_example(
    front: NginxProxy, bridge: Bridge, gemini: ScriptedGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    gemini.will_answer(lambda _: [*sse(text_chunk("1 ")), 1.5, *sse(text_chunk("2", "STOP"))])
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(front.certificate))
    settings = load(ROOT / "config", {"GEMINI_API_KEY": "some-key"})
    found = check_public_address(Installation(settings, front.address))
    assert found.level is Level.GREEN
    assert "streaming works" in found.says


class FromElsewhere(HTTPAdapter):
    def init_poolmanager(self, *args, **options) -> None:
        super().init_poolmanager(*args, source_address=("127.0.0.2", 0), **options)


def test_metrics_are_served_only_to_the_monitoring_address(front: NginxProxy, gemini: ScriptedGemini) -> None:
    address = front.address.replace("localhost", "127.0.0.1")
    with requests.Session() as session:

        def status(path: str) -> int:
            return session.get(f"{address}{path}", verify=str(front.certificate), timeout=30).status_code

        assert status("/metrics") != 403
        session.mount("https://", FromElsewhere())
        assert status("/metrics") == 403
        assert status("/readyz") == 200


def test_the_bridges_own_errors_pass_unchanged(front: NginxProxy, gemini: ScriptedGemini) -> None:
    answer = post(front, "/v1/nothing")
    assert answer.status_code == 404
    assert "There is no route POST /v1/nothing" in answer.json()["error"]["message"]


def test_a_bridge_without_keys_refuses_all_requests_behind_nginx(tmp_path: Path) -> None:
    with gunicorn_bridge() as keyless, nginx_proxy(tmp_path, keyless.address) as front:
        answer = post(front)
        assert answer.status_code == 401
        assert "gemini-bridge key add" in answer.json()["error"]["message"]
        assert keyless.request(status=401)["notes"] == {"no_key_defined": 1}
        direct = requests.post(f"{keyless.address}/v1/chat/completions", json=HELLO, timeout=30)
        assert direct.status_code == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1beta/models/m:generateContent"])
def test_while_the_bridge_is_down_clients_get_a_retryable_error(
    tmp_path: Path, path: str, canary_key: str
) -> None:
    with nginx_proxy(tmp_path, f"http://127.0.0.1:{free_port()}") as front:
        answer = post(front, f"{path}?key={canary_key}")
        assert front.logged(f'"path":"{path}","status":503')
        assert canary_key not in front.logs()
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert "try again" in answer.json()["error"]["message"]


def test_nginx_forwards_the_real_client_address_only(tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.update({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with nginx_proxy(tmp_path, f"http://127.0.0.1:{server.server_address[1]}") as front:
            claims = {"X-Forwarded-For": "10.9.8.7", "X-Forwarded-Proto": "gopher"}
            requests.get(front.address, headers=claims, verify=front.certificate, timeout=30)
    assert seen["x-forwarded-for"] == "127.0.0.1"
    assert seen["x-forwarded-proto"] == "https"
    assert seen["host"] == "localhost"
