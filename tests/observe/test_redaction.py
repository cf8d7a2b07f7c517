"""Redaction of the log: canary secrets are sent on every path and searched in every log line."""

from __future__ import annotations

import io
import json
import logging
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import requests
from gunicorn_bridge import gunicorn_bridge
from scripted_gemini import CUT, Reply, call_chunk, sse, text_chunk

from bridge.exchange.exchange import Exchange
from bridge.guards.shell_gate import ShellGate
from bridge.observe.logs import JsonFormatter
from bridge.observe.usage_writer import UsageObserver
from bridge.protocols.base import EventMachine
from bridge.settings import load
from bridge.web.app import create_app

PROMPT = "canary-prompt-7c1e"
SYSTEM = "canary-system-41ab"
ARGUMENT = "canary-argument-93d0"
RESULT = "canary-result-5e2f"
SIGNATURE = "Y2FuYXJ5LXNpZ25hdHVyZS1iNjg4"
ANSWER = "canary-answer-d117"
SCHEMA = "canary-schema-2f70"
CONTENT = (PROMPT, SYSTEM, ARGUMENT, RESULT, SIGNATURE, ANSWER, SCHEMA)

CLIENT_KEY = "canary-client-key-0a4b"
KEYS_SENT = (
    {"headers": {"Authorization": f"Bearer {CLIENT_KEY}"}},
    {"headers": {"Authorization": CLIENT_KEY}},
    {"headers": {"X-Api-Key": CLIENT_KEY}},
    {"headers": {"X-Goog-Api-Key": CLIENT_KEY}},
    {"params": {"key": CLIENT_KEY}},
    {"params": {"alt": "sse", "key": CLIENT_KEY}},
)


def chat() -> dict:
    call = {
        "id": "call-1",
        "type": "function",
        "function": {"name": "look", "arguments": json.dumps({"where": ARGUMENT})},
        "extra_content": {"google": {"thought_signature": SIGNATURE}},
    }
    parameters = {"type": "object", "properties": {"where": {"type": "string", "description": SCHEMA}}}
    return {
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": PROMPT},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call-1", "content": RESULT},
            {"role": "user", "content": f"And again {PROMPT}"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "look", "parameters": parameters}},
            {"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}},
        ],
    }


def messages() -> dict:
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "system": SYSTEM,
        "messages": [
            {"role": "user", "content": PROMPT},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": ANSWER, "signature": SIGNATURE},
                    {"type": "tool_use", "id": "call-1", "name": "look", "input": {"where": ARGUMENT}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call-1", "content": RESULT}],
            },
        ],
        "tools": [{"name": "look", "description": SCHEMA, "input_schema": {"type": "object"}}],
    }


def responses() -> dict:
    return {
        "model": "gpt-5-codex",
        "instructions": SYSTEM,
        "input": [
            {"role": "user", "content": PROMPT},
            {"type": "reasoning", "summary": [], "encrypted_content": SIGNATURE},
            {
                "type": "function_call",
                "call_id": "call-1",
                "name": "look",
                "arguments": json.dumps({"where": ARGUMENT}),
            },
            {"type": "function_call_output", "call_id": "call-1", "output": RESULT},
        ],
        "tools": [
            {"type": "function", "name": "look", "description": SCHEMA, "parameters": {"type": "object"}}
        ],
    }


REQUESTS = {"/v1/chat/completions": chat, "/v1/messages": messages, "/v1/responses": responses}


def refusal(status: int, name: str, message: str) -> Reply:
    error = {"error": {"code": status, "status": name, "message": message}}
    return Reply([json.dumps(error).encode()], status, {"Content-Type": "application/json"})


ECHO = f'Invalid value "{PROMPT}" beside {ARGUMENT} ({SYSTEM}), {RESULT}'

#: The upstream's response, and the error that the log must name.
UPSTREAM = {
    "text": (sse(text_chunk(ANSWER, "STOP")), None),
    "call": (sse(call_chunk("look", {"where": ARGUMENT}, "call-2", SIGNATURE, "STOP")), None),
    "held back": (
        sse(call_chunk("shell", {"command": ["cat", ARGUMENT, "|", "wc"]}, "c", None, "STOP")),
        None,
    ),
    "refused": (refusal(400, "INVALID_ARGUMENT", ECHO), "refused"),
    "key refused": (refusal(403, "PERMISSION_DENIED", f"Denied: '{PROMPT}', \"{RESULT}\""), "misconfigured"),
    "no model": (refusal(404, "NOT_FOUND", ECHO), "unknown_model"),
    "limited": (refusal(429, "RESOURCE_EXHAUSTED", ECHO), "rate_limited"),
    "broken": (refusal(500, "INTERNAL", ECHO), "unreachable"),
    "busy": (refusal(503, "UNAVAILABLE", ECHO), "overloaded"),
    "slow": (refusal(504, "DEADLINE_EXCEEDED", ECHO), "timeout"),
    "redirect": (Reply([ECHO.encode()], 302, {"Location": f"/{PROMPT}"}), "misconfigured"),
    "page of a proxy": (Reply([f"<html>{ECHO}</html>".encode()], 502), "unreachable"),
    "a proxy's word": (Reply([json.dumps({"error": ECHO}).encode()], 502), "unreachable"),
    "no json": ([f"data: {{{ECHO}\r\n\r\n".encode()], "malformed"),
    "cut": ([*sse(text_chunk(ANSWER)), CUT], "truncated"),
    "unfinished": (sse(text_chunk(ANSWER)), "truncated"),
    "error in the stream": (
        sse(text_chunk(ANSWER), {"error": {"code": 500, "status": "INTERNAL", "message": ECHO}}),
        "unreachable",
    ),
    "bad call": (
        sse({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": ECHO}]}),
        "malformed",
    ),
    "blocked": (sse({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": ECHO}}), None),
}

#: Requests that are invalid themselves.
BAD = {
    "no json": f'{{"model": "{PROMPT}'.encode(),
    "wrong type": json.dumps({**chat(), "temperature": PROMPT}).encode(),
    "wrong role": json.dumps({"model": "m", "messages": [{"role": PROMPT, "content": ARGUMENT}]}).encode(),
    "wrong block": json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": [{"type": PROMPT}]}]}
    ).encode(),
    "result without an id": json.dumps(
        {"model": "m", "messages": [{"role": "tool", "name": ARGUMENT, "content": RESULT}]}
    ).encode(),
}


def ask(bridge, path: str, request_id: str, key: dict, **options) -> requests.Response:
    headers = {**key.get("headers", {}), "X-Request-Id": request_id}
    url = f"{bridge.address}{path}"
    return requests.post(url, params=key.get("params"), headers=headers, timeout=60, **options)


def send_on_every_path(bridge, gemini) -> None:
    """Send requests on every path, with every way to send a key in turn."""
    keys = KEYS_SENT * 100
    walked = 0
    for path, body in REQUESTS.items():
        for name, (reply, error) in UPSTREAM.items():
            for stream in (False, True):
                request_id = f"walk-{walked}"
                gemini.forget()
                gemini.will_answer(lambda asked, said=reply: said)
                ask(bridge, path, request_id, keys[walked], json={**body(), "stream": stream})
                line = bridge.request(request_id=request_id)
                assert line.get("error") == error, (path, name, line)
                walked += 1
    gemini.forget()
    for data in BAD.values():
        request_id = f"walk-{walked}"
        assert ask(bridge, "/v1/chat/completions", request_id, keys[walked], data=data).status_code == 400
        assert bridge.request(request_id=request_id)["outcome"] == "failed"
        walked += 1


def found(canaries: tuple[str, ...], log: str) -> list[str]:
    return [line for line in log.splitlines() if any(canary in line for canary in canaries)]


def test_no_key_and_no_content_appears_in_the_log(bridge, gemini, canary_key):
    send_on_every_path(bridge, gemini)
    assert found((*CONTENT, CLIENT_KEY, canary_key), bridge.lines()) == []


def test_no_secrets_are_logged_after_a_disconnect(bridge, gemini, canary_key):
    gemini.will_say([*sse(text_chunk(ANSWER)), 30.0, *sse(text_chunk(ANSWER, "STOP"))])
    body = {**chat(), "stream": True}
    with ask(bridge, "/v1/chat/completions", "canary-leaver", KEYS_SENT[0], json=body, stream=True) as answer:
        next(answer.iter_content(10))
    assert bridge.request(request_id="canary-leaver")["outcome"] == "client_left"
    assert found((*CONTENT, CLIENT_KEY, canary_key), bridge.lines()) == []


def test_debug_mode_logs_content_but_no_key(gemini, canary_key):
    with gunicorn_bridge(
        GEMINI_API_KEY=canary_key,
        GOOGLE_GEMINI_BASE_URL=gemini.address,
        DEBUG="1",
        BRIDGE_SERVER__WORKERS="1",
    ) as debugging:
        for number, key in enumerate(KEYS_SENT):
            gemini.will_say(sse(text_chunk(ANSWER, "STOP")), refusal(500, "INTERNAL", f"{canary_key} {ECHO}"))
            ask(debugging, "/v1/chat/completions", f"debug-{number}", key, json=chat())
            ask(debugging, "/v1/messages", f"debugged-{number}", key, json=messages())
            debugging.request(request_id=f"debugged-{number}")
        gemini.will_say(sse(text_chunk(ANSWER, "STOP")))
        ask(debugging, "/v1/chat/completions", "debug-stream", KEYS_SENT[0], json={**chat(), "stream": True})
        debugging.request(request_id="debug-stream")
        assert debugging.log_entries(message="client event")[-1]["type"] == "done"
        assert found((PROMPT,), debugging.lines())
        assert found((CLIENT_KEY, canary_key), debugging.lines()) == []


def test_a_one_letter_key_causes_a_warning_and_masks_nothing(gemini):
    with gunicorn_bridge(GEMINI_API_KEY="e", GOOGLE_GEMINI_BASE_URL=gemini.address) as placeholder:
        gemini.will_say(refusal(500, "INTERNAL", ECHO))
        ask(placeholder, "/v1/chat/completions", "short-key", KEYS_SENT[0], json=chat())
        placeholder.request(request_id="short-key")
        (warning,) = placeholder.log_entries(level="warning", logger="bridge.server.active_settings")
        assert warning["message"].startswith("upstream.api_keys: a secret of fewer than 8 characters")
        assert "[masked]" not in placeholder.lines()


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("e", "exiting"),
        ("exiting", "exiting"),
        ("existing", "[masked]"),
        ("canary-secret", "before [masked] after"),
    ],
)
def test_only_secrets_of_a_minimum_length_are_masked(secret, text):
    line = JsonFormatter([secret, ""]).format(
        logging.makeLogRecord({"msg": text.replace("[masked]", secret)})
    )
    assert json.loads(line)["message"] == text


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (f"GET /v1/models?key={CLIENT_KEY}", "Invalid HTTP request line: [masked]"),
        (f"GET /v1/models?key={CLIENT_KEY} HTTP/9.9", "Invalid HTTP Version"),
        (f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key {CLIENT_KEY}", "Invalid HTTP Header: [masked]"),
        (f"POST /v1/messages HTTP/1.1\r\nX-Api-Key: {CLIENT_KEY}'\0'", "Invalid HTTP Header: 'X-API-KEY'"),
        (f"{CLIENT_KEY}'{{}}' /v1/messages HTTP/1.1", "Invalid HTTP method: [masked]"),
        (f"X-Api-Key: {CLIENT_KEY}", "Invalid HTTP request line: [masked]"),
    ],
)
def test_a_request_that_cannot_be_parsed_is_not_quoted(bridge, head, told):
    where, before = urlsplit(bridge.address), len(bridge.lines())
    with socket.create_connection((where.hostname, where.port), timeout=10) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 400")
    assert told in bridge.lines()[before:]
    assert found((CLIENT_KEY,), bridge.lines()) == []


# --- crashes: unexpected exceptions ------------------------------------------------------------------


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Collect all records at level info, before keys are masked."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    formatter = JsonFormatter()
    formatter._masked = lambda line: line
    handler.setFormatter(formatter)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    logging.getLogger("bridge").setLevel(logging.INFO)
    yield text
    root.removeHandler(handler)
    root.setLevel(before)
    logging.getLogger("bridge").setLevel(logging.NOTSET)


@pytest.fixture
def client(gemini, tmp_path, canary_key):
    environ = {
        "BRIDGE_STATE_DIR": str(tmp_path),
        "GEMINI_API_KEY": canary_key,
        "GOOGLE_GEMINI_BASE_URL": gemini.address,
    }
    return create_app(load(environ=environ)).test_client()


def crash(*_args, **_options):
    raise ValueError(f"{' '.join(CONTENT)} {CLIENT_KEY}")


@pytest.mark.parametrize(
    ("owner", "name", "outcome"),
    [
        (Exchange, "start", "failed"),
        (EventMachine, "feed", "failed"),
        (ShellGate, "on_call", "completed"),
        (UsageObserver, "_row", "completed"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_crash_log_has_the_location_but_no_exception_text(
    client, gemini, written, monkeypatch, canary_key, owner, name, outcome, stream
):
    monkeypatch.setattr(owner, name, crash)
    gemini.will_say(sse(call_chunk("shell", {"command": [ARGUMENT]}, "c", SIGNATURE, "STOP")))
    body, headers = {**chat(), "stream": stream}, {"Authorization": f"Bearer {CLIENT_KEY}"}
    with client.post("/v1/chat/completions", json=body, headers=headers) as answer:
        assert answer.data
    log = written.getvalue()
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["outcome"] for line in lines if line["message"] == "request"] == [outcome]
    assert [line for line in lines if line.get("exception", {}).get("type") == "ValueError"]
    assert found((*CONTENT, CLIENT_KEY, canary_key), log) == []
