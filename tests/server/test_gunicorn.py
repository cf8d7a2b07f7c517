"""The bridge in production form: real gunicorn, real sockets."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading

import pytest
import requests
from gunicorn_bridge import ROOT, clean_environment
from scripted_gemini import sse, text_chunk

HELLO = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}


def post(bridge, body, **options):
    return requests.post(f"{bridge.address}/v1/chat/completions", timeout=60, **{"json": body, **options})


def alive(bridge) -> bool:
    return post(bridge, HELLO).status_code == 200


def test_chunks_are_sent_as_they_arrive_and_not_at_the_end(bridge, gemini):
    seen = threading.Event()
    last = sse(text_chunk(" and last.", "STOP"))
    gemini.will_say([*sse(text_chunk("First")), lambda: seen.wait(60), *last])
    with post(bridge, {**HELLO, "stream": True}, stream=True) as answer:
        lines = answer.iter_lines()
        assert next(line for line in lines if b"First" in line)
        seen.set()
        assert b"and last." in b"".join(lines)


@pytest.mark.parametrize(
    ("path", "body", "sign"),
    [
        ("/v1/chat/completions", {}, b": keep-alive\n\n"),
        ("/v1/messages", {"max_tokens": 100}, b'event: ping\ndata: {"type":"ping"}\n\n'),
    ],
)
def test_a_silent_upstream_still_gives_the_client_heartbeats(bridge, gemini, path, body, sign):
    half, other = (b"".join(sse(text_chunk("Good "))), b"".join(sse(text_chunk("night.", "STOP"))))
    gemini.will_say([half[:40], 0.7, half[40:], 1.0, other])
    answer = requests.post(f"{bridge.address}{path}", json={**HELLO, **body, "stream": True}, timeout=60)
    assert answer.content.count(sign) >= 2
    assert b"night." in answer.content
    assert b"error" not in answer.content


def test_a_permanently_silent_upstream_times_out(bridge, gemini):
    gemini.will_say([*sse(text_chunk("Good ")), 8.0, *sse(text_chunk("night.", "STOP"))])
    answer = post(bridge, {**HELLO, "stream": True})
    assert "upstream_timeout" in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model":"m","messages":[{"role":"user","content":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}]}",
        b"\xff\xfe",
        b"{" * 10,
    ],
)
def test_hostile_bodies_are_refused_and_the_worker_survives(bridge, gemini, data):
    answer = post(bridge, None, data=data)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert alive(bridge)


def test_arguments_too_deep_to_be_sent_as_json_are_sent_as_text(bridge, gemini):
    nested = '{"a":' * 600 + "1" + "}" * 600
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": nested}}
    answer = post(
        bridge, {**HELLO, "messages": [*HELLO["messages"], {"role": "assistant", "tool_calls": [call]}]}
    )
    assert answer.status_code == 200
    (sent,) = gemini.asked[-1].body["contents"][1]["parts"]
    assert sent["functionCall"]["args"] == {"unparsed_arguments": nested}
    assert alive(bridge)


def test_a_body_above_64_mb_is_a_413_and_the_worker_survives(bridge, gemini):
    answer = post(bridge, None, data=b" " * (64 * 1024 * 1024 + 1))
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"
    assert alive(bridge)


def test_a_large_chunked_body_without_a_length_is_a_413_too(bridge, gemini):
    pieces = (b" " * (1 << 20) for _ in range(66))
    assert post(bridge, None, data=pieces).status_code == 413
    assert alive(bridge)


def test_a_chunked_body_without_a_length_is_read(bridge, gemini):
    assert post(bridge, None, data=iter([json.dumps(HELLO).encode()])).status_code == 200


def test_lone_surrogates_and_a_byte_order_mark_are_accepted(bridge, gemini):
    said = rb'{"role": "user", "content": "cut \ud83d, whole \ud83d\ude00, escaped \\ud83d"}'
    body = b'\xef\xbb\xbf{"model": "gpt-5", "messages": [' + said + b"]}"
    assert post(bridge, None, data=body).status_code == 200
    [part] = gemini.asked[-1].body["contents"][0]["parts"]
    assert part["text"] == "cut \ufffd, whole \U0001f600, escaped \\ud83d"


def test_a_malformed_chunked_body_is_a_client_error(bridge, gemini):
    host, port = bridge.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head + b"nonsense\r\n{}\r\n0\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_client_disconnect_ends_the_upstream_call(bridge, gemini):
    gemini.will_say([*sse(text_chunk("more ")), 30.0, *sse(text_chunk("yet", "STOP"))])
    with post(bridge, {**HELLO, "stream": True}, stream=True, headers={"X-Request-Id": "leaver"}) as answer:
        next(answer.iter_content(10))
    line = bridge.request(request_id="leaver")
    assert line["outcome"] == "client_left"
    assert line["duration_ms"] < 5000


def test_several_hundred_plain_requests_on_one_connection(bridge, gemini):
    with requests.Session() as session:
        answers = {
            session.post(f"{bridge.address}/v1/chat/completions", json=HELLO, timeout=60).status_code
            for _ in range(200)
        }
    assert answers == {200}


def test_the_demo_answers_without_configuration_and_identifies_itself(demo_bridge):
    body = post(demo_bridge, {**HELLO, "messages": [{"role": "user", "content": "Who are you?"}]}).json()
    assert "GEMINI_API_KEY" in body["choices"][0]["message"]["content"]
    assert "serving the embedded offline demo model" in demo_bridge.lines()


def test_the_strict_demo_model_accepts_a_converted_tool_loop(demo_bridge):
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
    messages = [{"role": "user", "content": "Use get_weather, please."}]
    body = {"model": "demo-strict", "messages": messages, "tools": tools}
    said = post(demo_bridge, body).json()["choices"][0]["message"]
    assert said["tool_calls"]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in said["tool_calls"]
    ]
    unsigned = {"role": "assistant", "tool_calls": [strip(call) for call in said["tool_calls"]]}
    foreign = json.loads(json.dumps(unsigned).replace(said["tool_calls"][0]["id"], "elsewhere"))
    elsewhere = [{**result, "tool_call_id": "elsewhere"} for result in results[:1]]
    for history in ([said, *results], [unsigned, *results], [foreign, *elsewhere]):
        answer = post(demo_bridge, {**body, "messages": [*messages, *history]})
        assert answer.status_code == 200, answer.text


def strip(call: dict) -> dict:
    return {key: value for key, value in call.items() if key != "extra_content"}


def test_invalid_settings_stop_the_start_with_one_clear_line():
    environment = clean_environment() | {"BRIDGE_SERVER__PROT": "1"}
    started = subprocess.run(
        [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "app:app"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert started.returncode != 0
    assert "BRIDGE_SERVER__PROT" in started.stderr
    assert "BRIDGE_SERVER__PORT" in started.stderr
    assert "Traceback" not in started.stderr


def test_a_port_in_use_is_reported():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        environment = clean_environment() | {"CODER_AGENT_PORT": str(taken.getsockname()[1])}
        started = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "app:app"],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _, told = started.communicate(timeout=60)
        finally:
            started.kill()
    assert "in use" in told
