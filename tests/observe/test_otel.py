"""OpenTelemetry spans, as a collector on loopback receives them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests
from gunicorn_bridge import ROOT, clean_environment, gunicorn_bridge
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from scripted_gemini import Reply, sse, text_chunk
from waiting import eventually

from bridge import __version__
from bridge.settings import SettingsError, load, source

HELLO = {"model": "gpt-5", "messages": [{"role": "user", "content": "a prompt nobody else may read"}]}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SERVER, CLIENT = 2, 3
ERROR = 2


class Collector:
    def __init__(self) -> None:
        self.received: list[ExportTraceServiceRequest] = []
        self.paths: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.paths.add(self.path)
                collector.received.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def spans(self):
        return [
            span
            for request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def wait_for(self, number: int):
        assert eventually(lambda: len(self.spans()) >= number), self.spans()
        return self.spans()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def attributes(span) -> dict[str, object]:
    found = {}
    for attribute in span.attributes:
        kind = attribute.value.WhichOneof("value")
        value = getattr(attribute.value, kind)
        found[attribute.key] = (
            [each.string_value for each in value.values] if kind == "array_value" else value
        )
    return found


def tracing_bridge(gemini, collector):
    return gunicorn_bridge(
        GEMINI_API_KEY="x",
        GOOGLE_GEMINI_BASE_URL=gemini.address,
        BRIDGE_SERVER__WORKERS="1",
        BRIDGE_OTEL__ENDPOINT=f"{collector.address}/",
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        OTEL_BSP_SCHEDULE_DELAY="200",
    )


def test_each_request_is_a_span_with_a_child_in_the_clients_trace(gemini, collector):
    usage = {
        "promptTokenCount": 9,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
    }
    gemini.will_say(sse(text_chunk("Hello.", "STOP", **usage)))
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-Id": "traced"}
    with tracing_bridge(gemini, collector) as bridge:
        url = f"{bridge.address}/v1/chat/completions"
        assert requests.post(url, json={**HELLO, "stream": True}, headers=headers, timeout=60).ok
        child, server = sorted(collector.wait_for(2), key=lambda span: span.kind, reverse=True)
        assert collector.paths == {"/v1/traces"}
    assert (server.kind, server.name) == (SERVER, "POST /v1/chat/completions")
    assert (server.trace_id.hex(), server.parent_span_id.hex()) == (TRACE, PARENT)
    assert attributes(server) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.path": "/v1/chat/completions",
        "gemini_bridge.request_id": "traced",
        "gemini_bridge.outcome": "completed",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.system": "gcp.gemini",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.model": "gemini-pro-latest",
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.response.finish_reasons": ["STOP"],
    }
    assert (child.kind, child.name) == (CLIENT, "chat gemini-pro-latest")
    assert (child.trace_id, child.parent_span_id) == (server.trace_id, server.span_id)
    assert server.start_time_unix_nano <= child.start_time_unix_nano < child.end_time_unix_nano
    assert child.end_time_unix_nano <= server.end_time_unix_nano
    resource = {
        each.key: each.value.string_value
        for each in collector.received[0].resource_spans[0].resource.attributes
    }
    assert (resource["service.name"], resource["service.version"]) == ("gemini-bridge", __version__)
    assert "nobody else may read" not in str(collector.received)


def test_failures_are_marked_and_spans_are_sent_before_the_process_ends(gemini, collector):
    gemini.will_say(Reply([b"{}"], 503), sse(text_chunk("cut")))
    with tracing_bridge(gemini, collector) as bridge:
        url = f"{bridge.address}/v1/chat/completions"
        broken = {"traceparent": "00-nonsense"}
        assert requests.post(url, json=HELLO, headers=broken, timeout=60).status_code == 503
        assert requests.post(url, json={**HELLO, "stream": True}, timeout=60).ok
        assert requests.post(url, data=b"{", timeout=60).status_code == 400
        assert requests.get(f"{bridge.address}/healthz", timeout=60).ok
    spans = collector.wait_for(5)
    servers = sorted(
        (span for span in spans if span.kind == SERVER), key=lambda span: span.start_time_unix_nano
    )
    assert [attributes(span).get("error.type") for span in servers] == [
        "overloaded",
        "truncated",
        "invalid_request",
    ]
    assert [span.status.code for span in servers] == [ERROR, ERROR, 0], "a client's mistake is not ours"
    assert [span.name for span in servers][2] == "POST"
    assert len({span.trace_id for span in servers}) == 3


def test_an_unreachable_collector_does_not_affect_requests(gemini, collector):
    collector.close()
    with tracing_bridge(gemini, collector) as bridge:
        url = f"{bridge.address}/v1/chat/completions"
        assert {requests.post(url, json=HELLO, timeout=60).status_code for _ in range(5)} == {200}


def test_opentelemetry_is_imported_only_when_configured():
    code = "import app, sys; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "[]"


def test_starting_without_the_extra_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(source.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingsError) as caught:
        load(environ={"BRIDGE_OTEL__ENDPOINT": "http://127.0.0.1:4318"})
    assert str(caught.value) == (
        "environment BRIDGE_OTEL__ENDPOINT: otel.endpoint is set, but OpenTelemetry is not installed. "
        "Run: pip install 'gemini-bridge[otel]'"
    )
    assert source.has_package("no_such_package_anywhere.at.all") is False
