"""Every part of the bridge that opens a TLS connection trusts the same CA certificates."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
from certificates import make_certificate, make_signed_certificate, needs_openssl
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult
from scripted_tokens import service_account
from upstream_rigs import CONFIG

from bridge.certificates import SHIPPED, SYSTEM, VARIABLES, ca_bundle
from bridge.connect import sse_post
from bridge.doctor import http_calls
from bridge.fetch.media_fetcher import MediaFetcher
from bridge.observe.otel import RequestSpans
from bridge.settings import MediaSettings, SettingsError, UpstreamRow, load
from bridge.upstream import make_upstream
from bridge.upstream.auth import google_auth
from bridge.upstream.probe import probe_address

pytestmark = needs_openssl
HOST = "127.0.0.1"
MODELS = {"models": [{"name": "models/m", "supportedGenerationMethods": ["generateContent"]}]}
TOKEN = {"access_token": "t" * 20, "expires_in": 3600}


class _Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = orjson.dumps(TOKEN if self.path == "/token" else MODELS)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__((HOST, 0), _Answering)
        self._tls = tls

    def finish_request(self, request: socket.socket, client_address: object) -> None:
        try:
            secure = self._tls.wrap_socket(request, server_side=True)
        except OSError:  # the client does not trust the certificate
            return
        with secure:
            super().finish_request(secure, client_address)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Path:
    """The file with the certificate of the CA that signed the server's."""
    return make_signed_certificate(folder, HOST, "localhost")[1]


@pytest.fixture(scope="module")
def address(folder: Path, authority: Path) -> Iterator[str]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "signed.pem", folder / "signed.key")
    server = _Server(tls)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://{HOST}:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def hashed(folder: Path, authority: Path) -> Path:
    """A folder of certificates as OpenSSL reads it."""
    made = folder / "hashed"
    made.mkdir()
    shutil.copy(authority, made / "ca.pem")
    subprocess.run(["openssl", "rehash", made], check=True, capture_output=True, timeout=30)
    return made


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", HOST)


# --- who opens connections ---------------------------------------------------------------------------


def upstream(address: str, kind: str = "gemini", ca: Path | None = None) -> None:
    row = UpstreamRow(name="one", kind=kind, api_keys=("k" * 20,), base_url=address, ca=ca)
    settings = load(CONFIG, {"BRIDGE_UPSTREAM__STORE": "true"})
    assert make_upstream(settings, row=row).models()


def upstream_sdk(address: str) -> None:
    upstream(address, "sdk")


def token(address: str) -> None:
    google_auth.TokenFetcher(google_auth.of_file(Path("/none"), service_account(f"{address}/token")))()


def probe(address: str) -> None:
    probe_address(address, 10)


def spans(address: str) -> None:
    made = RequestSpans(address)
    try:
        (processor,) = made._provider._active_span_processor._span_processors
        exporter = processor.span_exporter
        assert isinstance(exporter, OTLPSpanExporter)
        assert exporter.export([]) is SpanExportResult.SUCCESS
    finally:
        made.close()


def media(address: str) -> None:
    network = MediaFetcher(MediaSettings()).network
    port = int(address.rpartition(":")[2])
    with closing(socket.create_connection((HOST, port), 10)) as plain:
        network.tls.wrap_socket(plain, server_hostname=HOST).close()


def connect(address: str) -> None:
    sse_post.get_json(address)


def doctor(address: str) -> None:
    http_calls.get_json(address, "/readyz")


OPENERS = (upstream, upstream_sdk, token, probe, spans, media, connect, doctor)
every_opener = pytest.mark.parametrize("opens", OPENERS, ids=lambda each: each.__name__)


# --- tests -------------------------------------------------------------------------------------------


@every_opener
@pytest.mark.parametrize("variable", VARIABLES)
def test_each_variable_is_read_everywhere(
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    authority: Path,
    variable: str,
    opens: Callable[[str], None],
) -> None:
    monkeypatch.setenv(variable, str(authority))
    opens(address)


@every_opener
def test_a_folder_is_read_everywhere(
    monkeypatch: pytest.MonkeyPatch, address: str, hashed: Path, opens: Callable[[str], None]
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(hashed))
    opens(address)


@every_opener
def test_another_ca_is_trusted_nowhere(
    monkeypatch: pytest.MonkeyPatch, address: str, tmp_path: Path, opens: Callable[[str], None]
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(make_certificate(tmp_path, "other").certificate))
    with pytest.raises(Exception, match=r"(?i)certificate|TLS|FAILURE"):
        opens(address)


@every_opener
def test_the_first_variable_wins_everywhere(
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    authority: Path,
    tmp_path: Path,
    opens: Callable[[str], None],
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(make_certificate(tmp_path, "other").certificate))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    opens(address)


def test_the_ca_of_a_row_may_be_a_file_or_a_folder(address: str, authority: Path, hashed: Path) -> None:
    upstream(address, ca=authority)
    upstream(address, ca=hashed)


@pytest.mark.parametrize(
    ("contents", "problem"),
    [(None, "does not exist"), ("nothing", "has no certificate"), ({}, "run openssl rehash")],
)
def test_an_unusable_bundle_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, contents: object, problem: str
) -> None:
    place = tmp_path / "ca"
    if isinstance(contents, str):
        place.write_text(contents)
    elif contents is not None:
        place.mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(place))
    assert problem in ca_bundle().problem
    for refused in (lambda: MediaFetcher(MediaSettings()), lambda: upstream("https://h", ca=place)):
        with pytest.raises(SettingsError, match=problem):
            refused()
    for asked in (connect, doctor):
        with pytest.raises(Exception, match=f"of SSL_CERT_FILE .*{problem}"):
            asked("https://127.0.0.1:1")


def test_without_a_variable_the_certificates_of_the_system_are_trusted(
    monkeypatch: pytest.MonkeyPatch, authority: Path, hashed: Path, tmp_path: Path
) -> None:
    def system(file: Path, folder: Path) -> None:
        paths = ssl.DefaultVerifyPaths(None, None, "", str(file), "", str(folder))
        monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)

    system(authority, tmp_path)
    assert ca_bundle() == (str(authority), SYSTEM)
    system(tmp_path / "none", hashed)
    assert ca_bundle() == (str(hashed), SYSTEM)
    system(tmp_path / "none", tmp_path)
    assert ca_bundle().origin == SHIPPED
    assert ca_bundle().problem == ""
