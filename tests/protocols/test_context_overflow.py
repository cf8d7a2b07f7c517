"""A context overflow is reported with the message of each client's vendor, whole and in a stream.

Agents recognise an overflow only by its message, and compact instead of failing. Their search patterns were
read in their packages in November 2026 and tested with each agent; below is the essence.
"""

from __future__ import annotations

import re

import orjson
import pytest
import requests
from scripted_gemini import Reply, sse, text_chunk
from waiting import eventually

BOTH = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
LIMIT = "The input token count exceeds the maximum number of tokens allowed 1048576."
NEITHER = "The input token count exceeds the maximum number of tokens."

OPENAI_BOTH = (
    "This model's maximum context length is 1048576 tokens. However, your messages resulted in "
    "1048577 tokens. Please reduce the length of the messages."
)
OPENAI_LIMIT = (
    "This model's maximum context length is 1048576 tokens. However, your messages resulted in more. "
    "Please reduce the length of the messages."
)
OPENAI_NEITHER = (
    "Your messages are longer than this model's maximum context length. "
    "Please reduce the length of the messages."
)
OPENAI = {BOTH: OPENAI_BOTH, LIMIT: OPENAI_LIMIT, NEITHER: OPENAI_NEITHER}
MESSAGES = {
    BOTH: "prompt is too long: 1048577 tokens > 1048576 maximum",
    LIMIT: "prompt is too long: more than the 1048576 tokens maximum",
    NEITHER: "prompt is too long for the model",
}
HELLO = [{"role": "user", "content": "Hello"}]
ASKED = {
    "/v1/chat/completions": {"model": "gpt-5", "messages": HELLO},
    "/v1/responses": {"model": "gpt-5", "input": "Hello"},
    "/v1/messages": {"model": "claude-opus-4-8", "max_tokens": 100, "messages": HELLO},
    "/v1beta/models/gemini-pro-latest:generateContent": {"contents": [{"parts": [{"text": "Hello"}]}]},
}
WORDS = {
    "/v1/chat/completions": OPENAI,
    "/v1/responses": OPENAI,
    "/v1/messages": MESSAGES,
    "/v1beta/models/gemini-pro-latest:generateContent": {said: said for said in (BOTH, LIMIT, NEITHER)},
}

#: Patterns that an agent searches in the message; one match is enough.
LOOKED_FOR = {
    "pi and opencode": (
        "prompt is too long",
        "input token count.*exceeds the maximum",
        "reduce the length of the m",
    ),
    "cline": (r"\bcontext (?:length|window|limit)\b", r"\bprompt is too long\b", r"\btokens? exceeds?\b"),
    "litellm and aider": ("maximum context length", "prompt is too long", "token count.*exceeds the maximum"),
}


def envelope(message: str) -> dict:
    return {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}}


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("said", [BOTH, LIMIT, NEITHER], ids=["both", "limit", "neither"])
def test_an_overflow_before_the_answer(bridge, gemini, path, said):
    gemini.will_say(Reply([orjson.dumps(envelope(said))], status=400))
    answer = requests.post(bridge.address + path, json=ASKED[path], timeout=30)
    told = answer.json()["error"]
    assert (answer.status_code, told["message"]) == (400, WORDS[path][said])
    if WORDS[path] is OPENAI:
        assert (told["type"], told["code"]) == ("invalid_request_error", "context_length_exceeded")


@pytest.mark.parametrize("path", ASKED)
def test_an_overflow_in_the_middle_of_the_answer(bridge, gemini, path):
    gemini.will_say([*sse(text_chunk("Half an ans"), envelope(BOTH))])
    body, where = {**ASKED[path], "stream": True}, path
    if path.endswith(":generateContent"):
        body, where = ASKED[path], path.replace(":generate", ":streamGenerate") + "?alt=sse"
    answer = requests.post(bridge.address + where, json=body, timeout=30)
    assert answer.status_code == 200
    assert orjson.dumps(WORDS[path][BOTH]).decode() in answer.text


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("agent", LOOKED_FOR)
@pytest.mark.parametrize("said", [BOTH, LIMIT, NEITHER], ids=["both", "limit", "neither"])
def test_agents_recognise_the_overflow_message(path, agent, said):
    assert any(re.search(pattern, WORDS[path][said], re.IGNORECASE) for pattern in LOOKED_FOR[agent])


def test_a_background_answer_has_the_same_overflow_message(bridge, gemini):
    gemini.will_say(Reply([orjson.dumps(envelope(BOTH))], status=400))
    address = f"{bridge.address}/v1/responses"
    made = requests.post(address, json={**ASKED["/v1/responses"], "background": True}, timeout=30).json()
    stored = f"{address}/{made['id']}"
    assert eventually(lambda: requests.get(stored, timeout=30).json()["status"] == "failed")
    failed = requests.get(stored, timeout=30).json()
    assert failed["error"]["bridge_code"] == "context_length_exceeded"
    assert failed["error"]["message"] == OPENAI_BOTH
