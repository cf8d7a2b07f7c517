"""The upstream key reaches no client and no store, even if the upstream quotes it in any field.

A proxy that refuses a request may repeat its headers, even in a response with status 200.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
import requests
from gunicorn_bridge import Bridge, gunicorn_bridge
from raw_clients import CHAT, MESSAGES, NATIVE, RAW_CLIENTS, RESPONSES, RawClient
from scripted_gemini import Reply, ScriptedGemini, call_chunk, sse, text_chunk
from waiting import eventually

#: A key that matches no known key pattern.
KEY = "canary-upstream-key-5f3a9b"
SAID = f"The header x-goog-api-key: {KEY} is not welcome."
MASKED = b"[key]"
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
JSON = {"Content-Type": "application/json"}


def error(code: int, status: str) -> dict:
    return {"error": {"code": code, "status": status, "message": SAID, "details": [{"reason": SAID}]}}


def spelt_in_escapes(document: dict) -> bytes:
    return json.dumps(document).replace(KEY, ESCAPED).encode()


def candidate(**fields: object) -> dict:
    return {"candidates": [{"index": 0, **fields}]}


def halves(event: bytes) -> list[bytes | float]:
    middle = event.index(KEY.encode()) + len(KEY) // 2
    return [event[:middle], 0.1, event[middle:]]


REFUSED = error(400, "INVALID_ARGUMENT")
BROKEN = error(500, "INTERNAL")
OURS = error(403, "PERMISSION_DENIED")
TEXT = text_chunk("Half ")
(FIRST_EVENT,), (HALF,) = sse(REFUSED), sse(TEXT)

SAYINGS: dict[str, Reply] = {
    "instead of an answer": Reply([json.dumps(REFUSED).encode()], 400, JSON),
    "instead of an answer, about us": Reply([json.dumps(OURS).encode()], 403, JSON),
    "instead of an answer, in escapes": Reply([spelt_in_escapes(REFUSED)], 400, JSON),
    "as the whole body": Reply([json.dumps(REFUSED).encode()], 200, JSON),
    "as the whole body, over lines": Reply([json.dumps([BROKEN], indent=2).encode()], 200, JSON),
    "as the whole body, in escapes": Reply([spelt_in_escapes(OURS)], 200, JSON),
    "in the first event": Reply([FIRST_EVENT]),
    "in the first event, in two reads": Reply(halves(FIRST_EVENT)),
    "in the middle": Reply(sse(TEXT, BROKEN)),
    "in the middle, about us": Reply(sse(TEXT, OURS)),
    "in the middle, in escapes": Reply([HALF, b"data: " + spelt_in_escapes(REFUSED) + b"\r\n\r\n"]),
    "in the middle, outside of events": Reply([HALF, json.dumps(REFUSED, indent=1).encode()]),
    "in a finish message": Reply(sse(TEXT, candidate(finishReason="OTHER", finishMessage=SAID))),
    "in a malformed call": Reply(sse(candidate(finishReason="MALFORMED_FUNCTION_CALL", finishMessage=SAID))),
    "in a block": Reply(sse({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": SAID}})),
    "in a field of the future": Reply(sse({**text_chunk("So.", "STOP"), "remark": SAID})),
    "in a text": Reply(sse(text_chunk(SAID), text_chunk(".", "STOP"))),
    "in a text, in two reads": Reply([*halves(sse(text_chunk(SAID))[0]), *sse(text_chunk(".", "STOP"))]),
    "in a thought": Reply(
        sse(candidate(content={"parts": [{"text": SAID, "thought": True}]}), text_chunk(".", "STOP"))
    ),
    "in a call": Reply(sse(call_chunk("look", {"at": SAID}, "call-1", None, "STOP"))),
}


@pytest.fixture(scope="module")
def quoted(_gemini: ScriptedGemini) -> Iterator[Bridge]:
    with gunicorn_bridge(
        GEMINI_API_KEY=KEY,
        GOOGLE_GEMINI_BASE_URL=_gemini.address,
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        BRIDGE_UPSTREAM__KEY_COOLDOWN="0",
    ) as running:
        yield running


def ask(bridge: Bridge, raw_client: RawClient, stream: bool) -> bytes:
    more = {"store": True} if "store" in raw_client.body else {}
    answer = raw_client.ask(bridge.address, "gemini-3.8-flash", stream=stream, **more)
    return json.dumps(answer.headers).encode() + answer.content


@pytest.mark.parametrize("place", SAYINGS)
def test_no_client_sees_the_upstream_key(quoted: Bridge, gemini: ScriptedGemini, place: str) -> None:
    gemini.will_answer(lambda _asked: SAYINGS[place])
    answers = [ask(quoted, raw_client, stream) for raw_client in RAW_CLIENTS for stream in (True, False)]
    assert [answer for answer in answers if KEY.encode() in answer] == []
    assert any(MASKED in answer for answer in answers), "the words did not arrive at all"


@pytest.mark.parametrize("said", [Reply([json.dumps(REFUSED).encode()], 200, JSON), REFUSED, {"a": SAID}])
def test_unary_calls_do_not_show_the_upstream_key(
    quoted: Bridge, gemini: ScriptedGemini, said: Reply | dict
) -> None:
    gemini.will_answer(lambda _asked: said if isinstance(said, Reply) else Reply([json.dumps(said).encode()]))
    text = {"content": {"parts": [{"text": "Hello"}]}}
    for path, body in (
        ("/v1/messages/count_tokens", {**MESSAGES.body, "model": "claude-sonnet-4-5"}),
        ("/v1beta/models/gemini-3.8-flash:countTokens", NATIVE.body),
        ("/v1beta/models/gemini-embedding-x:embedContent", text),
    ):
        answer = requests.post(f"{quoted.address}{path}", json=body, timeout=30)
        assert KEY.encode() not in answer.content, answer.content


def test_the_model_list_does_not_show_the_upstream_key(quoted: Bridge, gemini: ScriptedGemini) -> None:
    model = {
        "name": "models/gemini-x",
        "description": SAID,
        "supportedGenerationMethods": ["generateContent"],
    }
    gemini.will_list({"models": [model]})
    shown = [requests.get(f"{quoted.address}{path}", timeout=30) for path in ("/v1/models", "/v1beta/models")]
    assert all(b"gemini-x" in each.content and KEY.encode() not in each.content for each in shown)


@pytest.mark.parametrize("place", ["in the middle", "in a text", "as the whole body"])
def test_no_store_and_no_log_holds_the_upstream_key(
    quoted: Bridge, gemini: ScriptedGemini, place: str
) -> None:
    gemini.will_answer(lambda _asked: SAYINGS[place])
    for raw_client in RAW_CLIENTS:
        for stream in (True, False):
            ask(quoted, raw_client, stream)
    body = {**RESPONSES.body, "model": "gpt-5", "background": True, "store": True}
    made = requests.post(f"{quoted.address}/v1/responses", json=body, timeout=30).json()
    done = eventually(lambda: _finished(quoted, made["id"]))
    assert MASKED in done
    assert KEY.encode() not in done
    with closing(sqlite3.connect(quoted.state / "answers.sqlite3")) as kept:
        assert kept.execute("SELECT count(*) FROM answer").fetchone()[0]
    written = [path for path in quoted.state.rglob("*") if path.is_file()]
    assert {"answers.sqlite3", "log"} <= {path.name for path in written}
    assert [path.name for path in written if KEY.encode() in path.read_bytes()] == []


def _finished(bridge: Bridge, answer_id: str) -> bytes:
    found = requests.get(f"{bridge.address}/v1/responses/{answer_id}", timeout=30)
    return b"" if found.json()["status"] in ("queued", "in_progress") else found.content


def test_a_client_that_sent_the_key_itself_may_see_it(quoted: Bridge, gemini: ScriptedGemini) -> None:
    """An agent that edits the file with the key must be able to write it back."""
    gemini.will_answer(lambda _asked: SAYINGS["in a text"])
    asked = [{"role": "user", "content": f"My .env has {KEY}"}]
    answer = CHAT.ask(quoted.address, "gemini-3.8-flash", stream=False, messages=asked)
    assert SAID.encode() in answer.content
