"""The probe is green against a working bridge, and otherwise red with the right remedy."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from gunicorn_bridge import free_port

from bridge.connect import sse_post
from bridge.connect.clients import CLIENTS, Target
from bridge.connect.probe import LOOK_UP, ProbeFinding, probe
from bridge.connect.protocol_clients import PROTOCOL_CLIENTS

ONE_OF_EACH = {speaks: next(c for c in CLIENTS.values() if c.speaks == speaks) for speaks in PROTOCOL_CLIENTS}
SPOKEN = pytest.mark.parametrize("speaks", PROTOCOL_CLIENTS)


def found(speaks: str, address: str, model: str = "gemini-3.8-flash") -> list[ProbeFinding]:
    return list(probe(ONE_OF_EACH[speaks], Target(address, "gbk_any", model)))


# --- a bridge that works -----------------------------------------------------------------------------


@SPOKEN
@pytest.mark.parametrize("model", ["gemini-3.8-flash", "demo-strict", "demo-think"])
def test_every_protocol_is_probed_with_text_and_tools(speaks, model, demo_bridge):
    findings = found(speaks, demo_bridge.address, model)
    assert [(each.detail, each.remedy) for each in findings if not each.good] == []
    proved = ["streamed text", "tool call and result"]
    assert [each.name for each in findings] == proved + ["freeform apply_patch"] * (speaks == "codex")
    assert all(0 < each.seconds < 30 for each in findings)
    assert "characters" in findings[0].detail


@pytest.mark.parametrize(("speaks", "tools"), [("codex", 0), ("responses", 1)])
def test_codex_is_probed_in_its_own_dialect(speaks, tools, demo_bridge):
    """The official dialect repeats the declared tools; Codex does not need them."""
    protocol_client, target = PROTOCOL_CLIENTS[speaks], Target(demo_bridge.address, "k", "gemini-3.8-flash")
    question = protocol_client.first_request(target.model, "Hi", LOOK_UP.tool)
    *_, last = sse_post.events(protocol_client.address(target), question, protocol_client.headers(target))
    assert (last["type"], len(last["response"]["tools"])) == ("response.completed", tools)


# --- a bridge that does not --------------------------------------------------------------------------


@pytest.mark.parametrize("speaks", ["chat", "responses", "codex", "messages"])
@pytest.mark.parametrize(
    ("model", "what", "remedy"),
    [
        ("demo-404", "has no model 'demo-404'", "--model"),
        ("demo-429", "HTTP 429", "wait 7 seconds"),
        ("demo-500", "", ""),
        ("demo-cut", "stopped in the middle", "log shows the reason"),
        ("demo-midstream-error", "overloaded", "log shows the reason"),
        ("demo-empty", "no text", "another model"),
    ],
)
def test_a_failing_model_is_a_red_line_with_a_remedy(speaks, model, what, remedy, demo_bridge):
    (finding,) = found(speaks, demo_bridge.address, model)
    assert not finding.good
    assert finding.name == "streamed text"
    assert what in finding.detail
    assert remedy in finding.remedy
    assert "\n" not in finding.detail


@SPOKEN
def test_a_bridge_that_is_not_running_is_named_as_the_reason(speaks):
    (finding,) = found(speaks, f"http://127.0.0.1:{free_port()}")
    assert finding.detail == "connection refused"
    assert "Is the bridge running there?" in finding.remedy


def test_an_unknown_host_is_named_as_the_reason():
    (finding,) = found("chat", "http://bridge.invalid:1")
    assert finding.detail == "the host name cannot be resolved"


def test_https_to_a_plain_http_port_is_named_as_the_reason(demo_bridge):
    (finding,) = found("chat", demo_bridge.address.replace("http:", "https:"))
    assert finding.detail == "the server does not use TLS"
    assert "http://" in finding.remedy


# --- other servers at the address --------------------------------------------------------------------


class Answer:
    """A server that sends this answer to every request."""

    def __init__(self, status: int, body: bytes, **headers: str) -> None:
        self.status, self.body, self.headers = status, body, headers
        self.asked: list[dict[str, str]] = []


@contextlib.contextmanager
def server(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer.asked.append({name.lower(): value for name, value in self.headers.items()})
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


def envelope(message: str) -> bytes:
    return json.dumps({"error": {"message": message}}).encode()


def stream(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


EVENTS = {"Content_Type": "text/event-stream"}


@SPOKEN
@pytest.mark.parametrize(
    ("answer", "detail", "remedy"),
    [
        (Answer(401, envelope("No valid key")), "HTTP 401: No valid key", "--key"),
        (Answer(403, envelope("Not this model")), "HTTP 403: Not this model", "--model"),
        (Answer(404, envelope("There is no route POST /v1/x")), "HTTP 404", "without /v1"),
        (Answer(404, b"<html>nginx</html>"), "HTTP 404: the answer is not from the bridge", "without /v1"),
        (Answer(404, envelope("Gemini has no model 'x'")), "HTTP 404", "GET /v1/models"),
        (Answer(429, envelope("Too many"), Retry_After="17"), "HTTP 429", "wait 17 seconds"),
        (Answer(429, envelope("Too many"), Retry_After="301"), "HTTP 429", "wait 6 minutes"),
        (Answer(429, envelope("Too many"), Retry_After="40000"), "HTTP 429", "wait 12 hours"),
        (Answer(502, envelope("The key was refused")), "HTTP 502", "doctor"),
        (Answer(418, b""), "HTTP 418", "Try again"),
        (Answer(302, b"", Location="https://there/"), "redirects to https://there/", "--url"),
        (Answer(200, b"<html>", Content_Type="text/html"), "the answer is text/html", "--url"),
        (Answer(200, b"data: {oops\n\n", **EVENTS), "not a JSON object", "proxy"),
        (Answer(200, b"data: []\n\n", **EVENTS), "not a JSON object", "proxy"),
        (Answer(200, b"", **EVENTS), "ended without its last event", "report"),
        (Answer(200, stream({"error": {"message": "broke"}, "type": "error"}), **EVENTS), "broke", "log"),
    ],
)
def test_the_remedy_matches_the_failure(speaks, answer, detail, remedy):
    with server(answer) as address:
        (finding,) = found(speaks, address)
    assert detail in finding.detail
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("speaks", "event"),
    [
        ("chat", {"choices": [{}]}),
        ("responses", {"type": "response.output_item.done"}),
        (
            "messages",
            {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": ""}},
        ),
    ],
)
def test_an_illegal_event_is_reported_as_a_bridge_error(speaks, event):
    with server(Answer(200, stream(event), **EVENTS)) as address:
        (finding,) = found(speaks, address)
    assert "does not follow the protocol" in finding.detail
    assert "report" in finding.remedy


def test_the_probe_times_out_on_silence(monkeypatch):
    monkeypatch.setattr(sse_post, "TIMEOUT", 0.2)
    held = threading.Event()

    class Silent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            held.wait(10)

    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        (finding,) = found("chat", f"http://127.0.0.1:{listening.server_port}")
        held.set()
        listening.shutdown()
    assert "no data for" in finding.detail


@SPOKEN
def test_the_key_is_sent_in_the_protocols_header(speaks):
    answer = Answer(401, b"")
    with server(answer) as address:
        found(speaks, address)
    sent = answer.asked[0]
    assert sent["user-agent"].startswith("codex" if speaks == "codex" else "gemini-bridge")
    assert sent["x-goog-api-key" if speaks == "gemini" else "authorization"].endswith("gbk_any")
