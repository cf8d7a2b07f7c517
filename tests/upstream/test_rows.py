"""An upstream from a row of upstreams.toml: its proxy, its time limits, and what its kind cannot do."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import make_certificate, needs_openssl
from scripted_gemini import Reply, ScriptedGemini
from upstream_rigs import CONFIG, read

from bridge.errors import UpstreamMisconfigured, UpstreamTimeout
from bridge.gemini.types import USER, Content, GenerateRequest, Part
from bridge.settings import SettingsError, UpstreamRow, load
from bridge.upstream import make_upstream

REQUEST = GenerateRequest("gemini-x", (Content(USER, (Part("Hi"),)),))


@pytest.fixture
def api() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


def row(**values: object) -> UpstreamRow:
    given: dict[str, object] = {"name": "one", "kind": "gemini", "api_keys": ("k" * 20,), **values}
    return UpstreamRow(**given)  # type: ignore[arg-type]


def test_the_proxy_of_a_row_is_used(api: ScriptedGemini) -> None:
    proxied = row(base_url="http://gemini.invalid", proxy=api.address)
    assert read(make_upstream(load(CONFIG, {}), row=proxied), REQUEST)
    (asked,) = api.asked
    assert asked.path.startswith("http://gemini.invalid/v1beta/models/gemini-x:")


@needs_openssl
def test_the_ca_of_a_row_is_used_for_its_upstream_alone(api: ScriptedGemini, tmp_path: Path) -> None:
    made = make_certificate(tmp_path, "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    api._server.socket = context.wrap_socket(api._server.socket, server_side=True)
    address, settings = api.address.replace("http://", "https://"), load(CONFIG, {})
    trusting = make_upstream(settings, row=row(base_url=address, ca=made.certificate))
    assert read(trusting, REQUEST)
    with pytest.raises(UpstreamMisconfigured, match="No trusted TLS connection"):
        read(make_upstream(settings, row=row(base_url=address)), REQUEST)


def test_a_file_without_certificates_is_the_administrators_problem(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    broken = row(base_url="https://127.0.0.1:1", ca=tmp_path / "ca.pem")
    with pytest.raises(SettingsError, match="has no certificate"):
        make_upstream(load(CONFIG, {}), row=broken)


def test_the_time_limits_of_a_row_apply(api: ScriptedGemini) -> None:
    api.will_say(Reply([5.0]))
    limited = row(base_url=api.address, first_byte_timeout=0.2, read_timeout=0.2)
    with pytest.raises(UpstreamTimeout):
        read(make_upstream(load(CONFIG, {}), row=limited), REQUEST)


def test_googles_old_package_refuses_a_proxy_of_its_own() -> None:
    settings = load(CONFIG, {"BRIDGE_UPSTREAM__STORE": "true"})
    with pytest.raises(SettingsError, match="remove proxy and ca"):
        make_upstream(settings, row=row(kind="sdk", proxy="http://p"))
