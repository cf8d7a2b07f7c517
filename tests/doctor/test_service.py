"""Checks of the running service and of the public address."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from certificates import make_certificate, needs_openssl
from gunicorn_bridge import Bridge, free_port
from scripted_gemini import ScriptedGemini, sse, text_chunk
from small_server import answering, buffering_proxy

from bridge.doctor.finding import Level
from bridge.doctor.service import check_public_address, check_service, own_address


def port(bridge: Bridge) -> str:
    return bridge.address.rpartition(":")[2]


def test_a_service_that_is_ready_is_green(installation, demo_bridge: Bridge) -> None:
    assert check_service(installation(CODER_AGENT_PORT=port(demo_bridge))).level is Level.GREEN


def test_a_service_that_does_not_respond_is_red(installation) -> None:
    found = check_service(installation(CODER_AGENT_PORT=str(free_port())))
    assert found.level is Level.RED
    assert "systemctl start" in found.remedy


def test_a_service_that_is_not_ready_is_red(installation) -> None:
    with answering(lambda *_: (503, {}, b"{}")) as address:
        found = check_service(installation(CODER_AGENT_PORT=address.rpartition(":")[2]))
    assert found.level is Level.RED
    assert "answered 503" in found.says


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"{}"])
def test_another_program_on_the_port_is_detected(installation, body: bytes) -> None:
    with answering(lambda *_: (200, {}, body)) as address:
        assert (
            check_service(installation(CODER_AGENT_PORT=address.rpartition(":")[2])).level is not Level.GREEN
        )


def test_settings_newer_than_the_service_are_detected(installation, demo_bridge: Bridge) -> None:
    found = check_service(installation(CODER_AGENT_PORT=port(demo_bridge), GEMINI_API_KEY="some-key"))
    assert found.level is Level.YELLOW
    assert "restart" in found.remedy


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:41242"),
        ("0.0.0.0", "http://127.0.0.1:41242"),
        ("::", "http://[::1]:41242"),
        ("10.1.2.3", "http://10.1.2.3:41242"),
    ],
)
def test_the_own_address_is_derived_from_the_host_setting(installation, host: str, address: str) -> None:
    assert own_address(installation(BRIDGE_SERVER__HOST=host).settings) == address


# --- the public address ------------------------------------------------------------------------------


def test_without_a_public_address_nothing_is_checked(installation) -> None:
    assert check_public_address(installation()).level is Level.GREEN


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_unbuffered_events_are_green(installation, demo_bridge: Bridge, ending: str) -> None:
    found = check_public_address(
        installation(f"{demo_bridge.address}{ending}", CODER_AGENT_PORT=port(demo_bridge))
    )
    assert found.level is Level.GREEN
    assert "streaming works" in found.says


def test_a_proxy_that_buffers_events_is_red(installation, demo_bridge: Bridge) -> None:
    with buffering_proxy(demo_bridge.address) as door:
        found = check_public_address(installation(door, CODER_AGENT_PORT=port(demo_bridge)))
    assert found.level is Level.RED
    assert "arrived together" in found.says
    assert "proxy_buffering off" in found.remedy


def slowly(gemini: ScriptedGemini) -> None:
    pieces = [*sse(text_chunk("1 ")), 0.5, *sse(text_chunk("2 ")), 0.5, *sse(text_chunk("3", "STOP"))]
    gemini.will_answer(lambda _: pieces)


def test_with_a_real_model_the_proxy_is_compared_with_the_service(
    installation, bridge: Bridge, gemini: ScriptedGemini
) -> None:
    slowly(gemini)
    made = {"CODER_AGENT_PORT": port(bridge), "GEMINI_API_KEY": "some-key"}
    assert check_public_address(installation(bridge.address, "client-key", **made)).level is Level.GREEN
    with buffering_proxy(bridge.address) as door:
        assert check_public_address(installation(door, "client-key", **made)).level is Level.RED


def test_an_answer_too_quick_to_measure_is_yellow(
    installation, bridge: Bridge, gemini: ScriptedGemini
) -> None:
    found = check_public_address(
        installation(bridge.address, CODER_AGENT_PORT=port(bridge), GEMINI_API_KEY="k")
    )
    assert found.level is Level.YELLOW
    assert "too fast" in found.says


@pytest.mark.parametrize(
    ("status", "level", "remedy"),
    [
        (401, Level.RED, "BRIDGE_KEY="),
        (429, Level.YELLOW, "limit"),
        (502, Level.RED, "journalctl"),
        (404, Level.RED, "proxy"),
    ],
)
def test_a_refusal_by_the_proxy_is_reported_with_a_remedy(
    installation, status: int, level: Level, remedy: str
) -> None:
    with answering(lambda *_: (status, {}, b"{}")) as door:
        found = check_public_address(installation(door, "secret-client-key"))
    assert found.level is level
    assert f"answered {status}" in found.says
    assert remedy in found.remedy
    assert "secret-client-key" not in found.says + found.remedy


def test_the_key_is_sent_like_a_client_sends_it(installation) -> None:
    seen = []
    with answering(lambda path, headers: seen.append((path, headers)) or (401, {}, b"{}")) as door:
        check_public_address(installation(door, "secret-client-key"))
    path, headers = seen[-1]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer secret-client-key"


@pytest.mark.parametrize(
    "door", ["https://127.0.0.1:{port}", "http://127.0.0.1:{port}", "nonsense", "http://[bad"]
)
def test_an_unreachable_public_address_is_red(installation, door: str) -> None:
    assert check_public_address(installation(door.format(port=free_port()))).level is Level.RED


def test_a_public_address_that_times_out_is_yellow(installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.doctor.http_calls.TIMEOUT", 0.3)
    with answering(lambda *_: time.sleep(2) or (200, {}, b"{}")) as door:
        found = check_public_address(installation(door))
    assert found.level is Level.YELLOW
    assert "no answer within" in found.says


def test_a_silent_model_is_yellow(
    installation, bridge: Bridge, gemini: ScriptedGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy passes heartbeats, and nothing else for a long time."""
    monkeypatch.setattr("bridge.doctor.http_calls.TIMEOUT", 1.0)
    gemini.will_answer(lambda _: [3.0, *sse(text_chunk("At last.", "STOP"))])
    found = check_public_address(installation(bridge.address, GEMINI_API_KEY="k"))
    assert found.level is Level.YELLOW
    assert "within 1 seconds" in found.says


def test_a_public_address_without_a_local_service_to_compare_is_yellow(
    installation, bridge: Bridge, gemini: ScriptedGemini
) -> None:
    found = check_public_address(
        installation(bridge.address, CODER_AGENT_PORT=str(free_port()), GEMINI_API_KEY="k")
    )
    assert found.level is Level.YELLOW
    assert "connection refused" in found.says


@needs_openssl
def test_an_untrusted_certificate_is_red(
    installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_certificate(tmp_path, "127.0.0.1")
    with answering(lambda *_: (401, {}, b"{}"), made) as door:
        found = check_public_address(installation(door))
        assert found.level is Level.RED
        assert "CERTIFICATE_VERIFY_FAILED" in found.says
        monkeypatch.setenv("SSL_CERT_FILE", str(made.certificate))
        assert "answered 401" in check_public_address(installation(door)).says
