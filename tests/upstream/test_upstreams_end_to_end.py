"""The other upstreams of Google behind real gunicorn: streams, tools, silence, disconnects, secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from gunicorn_bridge import Bridge, gunicorn_bridge
from scripted_gemini import Reply, ScriptedGemini, call_chunk, text_chunk
from scripted_tokens import CANARY_TOKEN, TokenServer
from upstream_rigs import KEYS, OTHERS, WIRE, environment

FLASH = "gemini-3.8-flash"
HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
GOOGLES = [name for name in WIRE if name not in ("gemini", *OTHERS)]
SECRETS = (CANARY_TOKEN, "canary-refresh-token", "PRIVATE KEY", *KEYS)


@dataclass
class Served:
    name: str
    bridge: Bridge
    api: ScriptedGemini
    tokens: TokenServer

    def will_say(self, *chunks: Any) -> None:
        wrapped, _ = WIRE[self.name]
        self.api.will_say(wrapped(chunks))

    def pieces(self, *chunks: Any) -> tuple[list[Any], dict[str, str]]:
        reply = WIRE[self.name][0](chunks)
        return list(reply.body), reply.headers

    @property
    def model(self) -> str:
        """Google's package cannot carry the signatures that all newer models require."""
        return "gemma-3-27b-it" if self.name == "sdk" else FLASH

    def post(self, body: Any, path: str = "/v1/chat/completions", **options: Any) -> requests.Response:
        return requests.post(
            f"{self.bridge.address}{path}", json={"model": self.model, **body}, timeout=60, **options
        )


@pytest.fixture(scope="module", params=GOOGLES)
def _served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    api, tokens = ScriptedGemini(), TokenServer()
    folder: Path = tmp_path_factory.mktemp("credentials")
    environ = environment(request.param, api.address, tokens.address, folder)
    with gunicorn_bridge(
        **environ,
        BRIDGE_SERVER__WORKERS="2",
        BRIDGE_SERVER__HEARTBEAT="0.3",
        BRIDGE_UPSTREAM__READ_TIMEOUT="5",
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        BRIDGE_UPSTREAM__KEY_COOLDOWN="0",
        DEBUG="1",
    ) as bridge:
        yield Served(request.param, bridge, api, tokens)
    api.close()
    tokens.close()


@pytest.fixture
def served(_served: Served) -> Served:
    _served.api.forget()
    return _served


def test_a_stream_is_passed_on(served: Served) -> None:
    served.will_say(text_chunk("Hel"), text_chunk("lo.", "STOP"))
    answer = served.post({**HELLO, "stream": True})
    assert answer.status_code == 200, answer.text
    deltas = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    said = "".join(delta["choices"][0]["delta"].get("content") or "" for delta in deltas if delta["choices"])
    assert said == "Hello."
    assert answer.text.endswith("data: [DONE]\n\n")


def test_a_whole_answer_is_passed_on_in_another_protocol(served: Served) -> None:
    served.will_say(text_chunk("Hello.", "STOP", promptTokenCount=9, candidatesTokenCount=3))
    body = served.post({**HELLO, "max_tokens": 100}, "/v1/messages").json()
    assert body["content"] == [{"type": "text", "text": "Hello."}]
    assert body["usage"]["input_tokens"] == 9


def test_a_tool_turn_makes_a_round_trip(served: Served) -> None:
    tools = [{"type": "function", "function": {"name": "look", "description": "Look around."}}]
    served.will_say(call_chunk("look", {"far": 3}, "c1", finish="STOP"))
    said = served.post({**HELLO, "tools": tools}).json()["choices"][0]["message"]
    (call,) = said["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"far": 3}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "a wall"}
    served.will_say(text_chunk("A wall.", "STOP"))
    told = served.post({**HELLO, "messages": [*HELLO["messages"], said, result], "tools": tools})
    assert told.json()["choices"][0]["message"]["content"] == "A wall."


def test_a_silent_upstream_still_gives_the_client_heartbeats(served: Served) -> None:
    (first, *rest), headers = served.pieces(text_chunk("Good "), text_chunk("night.", "STOP"))
    served.api.will_say(Reply([1.0, first, 1.0, *rest], headers=headers))
    answer = served.post({**HELLO, "stream": True})
    assert answer.text.count(": keep-alive\n\n") >= 2
    assert "night." in answer.text


def test_a_client_disconnect_ends_the_upstream_call(served: Served) -> None:
    (first, *rest), headers = served.pieces(text_chunk("Good "), text_chunk("night.", "STOP"))
    served.api.will_say(Reply([first, 30.0, *rest], headers=headers))
    name = f"leaver-{served.name}"
    with served.post({**HELLO, "stream": True}, stream=True, headers={"X-Request-Id": name}) as answer:
        next(answer.iter_content(10))
    line = served.bridge.request(request_id=name)
    assert line["outcome"] == "client_left"
    assert line["duration_ms"] < 5000


def test_the_models_are_listed(served: Served) -> None:
    if served.name == "vertex":
        served.api.will_list({"publisherModels": [{"name": f"publishers/google/models/{FLASH}"}]})
    served.api.will_say(Reply([json.dumps({"buckets": [{"modelId": FLASH}]}).encode()]))
    listed = requests.get(f"{served.bridge.address}/v1/models", timeout=60).json()
    assert FLASH in [model["id"] for model in listed["data"]]


def test_notices_are_logged_at_start(served: Served) -> None:
    notices = [line for line in served.bridge.lines().splitlines() if f"upstream {served.name}: " in line]
    assert len(notices) == (0 if served.name == "vertex" else 1)
    ready = requests.get(f"{served.bridge.address}/readyz", timeout=60).json()
    assert ready["upstream"] == served.name


def test_a_refusal_that_quotes_the_secret_does_not_leak_it(served: Served) -> None:
    quoted = " ".join((f"{CANARY_TOKEN}1", f"{CANARY_TOKEN}file", *KEYS))
    error = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": f"Not for {quoted}."}}
    served.api.will_say(*[Reply([json.dumps(error).encode()], 403)] * len(KEYS))
    answer = served.post(HELLO)
    assert answer.status_code == 502
    log = served.bridge.lines()
    assert "misconfigured" in log
    assert [secret for secret in SECRETS if secret in answer.text + log] == []


def test_signatures_of_one_upstream_are_not_sent_to_another(tmp_path: Path) -> None:
    """Send the same conversation first to the Developer API and then to Vertex AI."""
    api, tokens = ScriptedGemini(), TokenServer()
    model = "gemini-3.1-pro-preview"
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    asked = {"model": model, "messages": HELLO["messages"], "tools": tools}
    state = {"BRIDGE_STATE_DIR": str(tmp_path / "state"), "BRIDGE_SERVER__WORKERS": "1"}
    sent: dict[str, str] = {}
    api.will_answer(lambda _asked: WIRE["gemini"][0]([text_chunk("Done.", "STOP")]))
    try:
        for name in ("gemini", "vertex", "gemini"):
            environ = environment(name, api.address, tokens.address, tmp_path)
            with gunicorn_bridge(**environ, **state) as bridge:
                url = f"{bridge.address}/v1/chat/completions"
                if not sent:
                    api.will_say(WIRE["gemini"][0]([call_chunk("look", {}, "c1", "c2lnbmVk", "STOP")]))
                    said = requests.post(url, json=asked, timeout=60).json()["choices"][0]["message"]
                    result = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "a"}
                messages = [*asked["messages"], said, result]
                answer = requests.post(url, json={**asked, "messages": messages}, timeout=60)
                assert answer.status_code == 200, answer.text
                sent[name] = json.dumps(api.asked[-1].body)
    finally:
        api.close()
        tokens.close()
    assert "c2lnbmVk" in sent["gemini"]
    assert "c2lnbmVk" not in sent["vertex"]
