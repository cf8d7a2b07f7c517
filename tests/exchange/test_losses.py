"""Losses of a request: named in a header and in the record, and refused in strict mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests
from client_keys import ClientKeys
from gunicorn_bridge import Bridge, gunicorn_bridge
from scripted_gemini import Reply, ScriptedGemini, sse, text_chunk
from waiting import eventually

from bridge.access import key_cache
from bridge.exchange.losses import MOST_EXPLAINED, REQUEST_LOSSES
from bridge.settings import load
from bridge.state.key_store import Rules
from bridge.web.app import LONGEST_LOSSES, create_app

HELLO = [{"role": "user", "content": "Hello"}]
MODEL = "gemini-flash-latest"
LOOK = {"type": "object", "properties": {"city": {"type": "string"}}}
REDACTED = [*HELLO, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}, *HELLO]

#: For each endpoint a request that loses something, and the losses.
CALLS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "chat": (
        "/v1/chat/completions",
        {"messages": HELLO, "verbosity": "low", "parallel_tool_calls": False},
        ["chat.parallel_tool_calls", "chat.verbosity"],
    ),
    "responses": (
        "/v1/responses",
        {
            "input": "Hello",
            "max_tool_calls": 3,
            "tools": [
                {"type": "file_search"},
                {"type": "computer_use_preview"},
            ],
        },
        ["responses.max_tool_calls", "responses.tool:computer_use_preview", "responses.tool:file_search"],
    ),
    "messages": ("/v1/messages", {"messages": REDACTED, "max_tokens": 9}, ["messages.redacted_thinking"]),
    "interactions": (
        "/v1beta/interactions",
        {"input": "Hello", "labels": {"team": "blue"}},
        ["interactions.labels"],
    ),
    "count": ("/v1/messages/count_tokens", {"messages": REDACTED}, ["messages.redacted_thinking"]),
}
EACH = pytest.mark.parametrize("name", CALLS)
STREAMED = [name for name in CALLS if name != "count"]


@pytest.fixture
def ask(bridge: Bridge, gemini: ScriptedGemini) -> Callable[..., requests.Response]:
    gemini.will_say(*([sse(text_chunk("Hello.", "STOP"))] * 3))

    def asked(
        name: str, headers: dict[str, str] | None = None, address: str = "", **more: Any
    ) -> requests.Response:
        path, body, _ = CALLS[name]
        body = {"model": MODEL, **body, **more}
        return requests.post(f"{address or bridge.address}{path}", json=body, headers=headers, timeout=30)

    return asked


def answers(gemini: ScriptedGemini, name: str) -> None:
    """Counting tokens has an answer of its own."""
    if name == "count":
        gemini.forget()
        gemini.will_say(Reply([b'{"totalTokens": 7}']))


@EACH
def test_the_header_names_what_was_dropped(ask, gemini, name):
    answers(gemini, name)
    answer = ask(name)
    assert (answer.status_code, answer.headers["x-bridge-losses"]) == (200, ",".join(CALLS[name][2]))


@pytest.mark.parametrize("name", STREAMED)
def test_the_header_is_sent_with_a_stream(ask, name):
    answer = ask(name, stream=True)
    assert (answer.status_code, answer.headers["x-bridge-losses"]) == (200, ",".join(CALLS[name][2]))
    assert "Hello." in answer.text


def test_a_background_answer_names_its_losses(ask):
    answer = ask("responses", background=True)
    assert answer.headers["x-bridge-losses"] == ",".join(CALLS["responses"][2])


def test_a_request_without_losses_has_no_header(ask):
    answer = ask("chat", verbosity=None, parallel_tool_calls=None)
    assert answer.status_code == 200
    assert "x-bridge-losses" not in answer.headers


def test_the_losses_are_in_the_record(ask, bridge):
    answer = ask("responses")
    name = answer.headers["X-Request-Id"]
    assert eventually(lambda: bridge.log_entries(request_id=name))
    (line,) = bridge.log_entries(request_id=name)
    assert set(CALLS["responses"][2]) <= set(line["notes"])


@EACH
def test_strict_mode_refuses_and_names_the_losses(ask, gemini, name):
    gemini.forget()
    answer = ask(name, {"x-bridge-strict": "1"})
    message = answer.json()["error"]["message"]
    assert answer.status_code == 400
    for loss in CALLS[name][2]:
        assert f"{loss}: {REQUEST_LOSSES[loss.partition(':')[0]]}" in message
    assert answer.headers["x-bridge-losses"] == ",".join(CALLS[name][2])
    assert gemini.asked == []


def test_strict_mode_refuses_a_stream_with_a_status(ask, gemini):
    gemini.forget()
    answer = ask("chat", {"x-bridge-strict": "1"}, stream=True)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "parallel_tool_calls")
    assert gemini.asked == []


@pytest.mark.parametrize("value", ["1", "0"])
def test_strict_mode_serves_requests_without_losses(ask, value):
    answer = ask("chat", {"x-bridge-strict": value}, verbosity=None, parallel_tool_calls=None)
    assert answer.status_code == 200


@pytest.mark.parametrize("value", ["", "yes", "true", "2", "1,1"])
@EACH
def test_another_value_of_the_strict_header_is_refused(ask, gemini, name, value):
    gemini.forget()
    answer = ask(name, {"x-bridge-strict": value})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("x-bridge-strict: must be 0 or 1, not ")
    assert gemini.asked == []


# --- what the model drops ----------------------------------------------------------------------------


SEARCH = {
    "tools": [{"type": "function", "function": {"name": "look", "parameters": LOOK}}],
    "web_search_options": {},
    "verbosity": None,
    "parallel_tool_calls": None,
}


@pytest.mark.parametrize("stream", [True, False])
def test_what_the_model_does_not_take_is_named_and_refused(ask, gemini, stream):
    lost = "tools.search_beside_functions"
    answer = ask("chat", stream=stream, **SEARCH)
    assert (answer.status_code, answer.headers["x-bridge-losses"]) == (200, lost)
    before = len(gemini.asked)
    answer = ask("chat", {"x-bridge-strict": "1"}, stream=stream, **SEARCH)
    assert (answer.status_code, f"{lost}: " in answer.json()["error"]["message"]) == (400, True)
    assert len(gemini.asked) == before


REFUSED = {"code": 400, "status": "INVALID_ARGUMENT", "message": "Unsupported schema: tools[0] is too deep."}
TOOL = {"tools": SEARCH["tools"], "verbosity": None, "parallel_tool_calls": None}


@pytest.fixture
def refusal() -> Reply:
    message = (
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[city]: "
        "unknown keyword in schema"
    )
    return Reply([orjson.dumps({"error": {**REFUSED, "message": message}})], 400)


@pytest.mark.parametrize("stream", [True, False])
def test_a_repair_that_drops_details_is_named(ask, gemini, refusal, stream):
    gemini.forget()
    gemini.will_say(refusal, sse(text_chunk("Hello.", "STOP")))
    deep = {**LOOK, "properties": {"city": {"type": "string", "pattern": "^[A-Z]"}}}
    tools = [{"type": "function", "function": {"name": "look", "parameters": deep}}]
    answer = ask("chat", stream=stream, **{**TOOL, "tools": tools})
    assert (answer.status_code, answer.headers["x-bridge-losses"]) == (200, "tools.schema_details")
    assert len(gemini.asked) == 2


def test_strict_mode_repairs_nothing_by_dropping(ask, gemini, refusal):
    gemini.forget()
    gemini.will_say(refusal)
    deep = {**LOOK, "properties": {"city": {"type": "string", "pattern": "^[A-Z]"}}}
    tools = [{"type": "function", "function": {"name": "look", "parameters": deep}}]
    answer = ask("chat", {"x-bridge-strict": "1"}, **{**TOOL, "tools": tools})
    assert answer.status_code == 400
    assert "unknown keyword in schema" in answer.json()["error"]["message"]
    assert len(gemini.asked) == 1


# --- the header's text -------------------------------------------------------------------------------


def test_the_header_is_bounded_and_safe(ask):
    kinds = [f"kind {number} é,\r\nx" + "y" * 40 for number in range(100)]
    answer = ask("responses", tools=[{"type": kind} for kind in kinds], max_tool_calls=None)
    header = answer.headers["x-bridge-losses"]
    *names, rest = header.split(",")
    assert answer.status_code == 200
    assert LONGEST_LOSSES - 60 < len(header) <= LONGEST_LOSSES + len(",+100")
    assert names == sorted(names)
    assert all(name.startswith("responses.tool:kind?") and name.isascii() for name in names)
    assert int(rest.removeprefix("+")) + len(names) == 100


def test_the_error_explains_some_losses_and_counts_the_others(ask):
    kinds = [{"type": f"kind_{number}"} for number in range(8)]
    answer = ask("responses", {"x-bridge-strict": "1"}, tools=kinds, max_tool_calls=None)
    message = answer.json()["error"]["message"]
    assert answer.status_code == 400
    assert message.count("responses.tool:") == MOST_EXPLAINED
    assert "3 more losses follow." in message


# --- strict keys -------------------------------------------------------------------------------------


@pytest.fixture
def strict_bridge(tmp_path: Path, gemini: ScriptedGemini, canary_key: str) -> Iterator[tuple[str, str, str]]:
    keys = ClientKeys(tmp_path)
    strict, other = keys.add("strict", Rules(strict=True)), keys.add("other", Rules())
    with gunicorn_bridge(
        BRIDGE_STATE_DIR=str(tmp_path), GEMINI_API_KEY=canary_key, GOOGLE_GEMINI_BASE_URL=gemini.address
    ) as running:
        yield running.address, strict, other


def test_the_rule_of_a_key_makes_all_its_requests_strict(ask, gemini, strict_bridge):
    address, strict, other = strict_bridge
    for name in CALLS:
        for more in ({}, {"x-bridge-strict": "0"}):
            answer = ask(name, {"Authorization": f"Bearer {strict}", **more}, address)
            assert answer.status_code == 400, "the header cannot turn off the rule of a key"
    assert gemini.asked == []
    assert ask("chat", {"Authorization": f"Bearer {other}"}, address).status_code == 200


def test_the_rule_of_a_key_can_be_changed(tmp_path, gemini, canary_key, monkeypatch):
    monkeypatch.setattr(key_cache, "BETWEEN_LOOKS", 0)
    keys = ClientKeys(tmp_path)
    headers = {"x-api-key": keys.add("alice", Rules(strict=True))}
    environ = {
        "BRIDGE_STATE_DIR": str(tmp_path),
        "GEMINI_API_KEY": canary_key,
        "GOOGLE_GEMINI_BASE_URL": gemini.address,
    }
    client = create_app(load(environ=environ)).test_client()
    gemini.will_say(sse(text_chunk("Hello.", "STOP")))
    path, body, _ = CALLS["messages"]
    asked = {"model": MODEL, **body}
    assert client.post(path, json=asked, headers=headers).status_code == 400
    keys.change("alice", lambda _: Rules())
    assert client.post(path, json=asked, headers=headers).status_code == 200
