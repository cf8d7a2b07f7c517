"""Why Gemini refuses a prompt or stops an answer is said in every protocol that has a field for it."""

from __future__ import annotations

import pytest
from gunicorn_bridge import Bridge
from raw_clients import CHAT, CODEX, INTERACTIONS, MESSAGES, NATIVE, RESPONSES, RawClient
from scripted_gemini import ScriptedGemini, sse, text_chunk

WITH_WORDS = (CHAT, MESSAGES, RESPONSES, CODEX, INTERACTIONS)
BLOCKED = "Gemini, Google's model, stopped this answer: the prompt contains a forbidden term (BLOCKLIST)."
STOPPED = "Gemini, Google's model, stopped this answer: the answer contained sensitive personal data (SPII)."
LEGACY = RawClient("completions", "/v1/completions", {"prompt": "Hello"}, ("[DONE]",), ("[DONE]",), b"")

EITHER_WAY = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@EITHER_WAY
@pytest.mark.parametrize("raw_client", WITH_WORDS, ids=lambda each: each.name)
def test_a_refused_prompt(bridge: Bridge, gemini: ScriptedGemini, raw_client: RawClient, stream: bool):
    gemini.will_say(sse({"promptFeedback": {"blockReason": "BLOCKLIST"}}))
    answer = raw_client.ask(bridge.address, "gemini-3.8-flash", stream=stream)
    assert BLOCKED in answer.content.decode()


@EITHER_WAY
@pytest.mark.parametrize("raw_client", [CHAT, MESSAGES, CODEX, INTERACTIONS], ids=lambda each: each.name)
def test_a_stopped_answer(bridge: Bridge, gemini: ScriptedGemini, raw_client: RawClient, stream: bool):
    gemini.will_say(sse(text_chunk("Half an ans", "SPII")))
    answer = raw_client.ask(bridge.address, "gemini-3.8-flash", stream=stream)
    assert STOPPED in answer.content.decode()


@EITHER_WAY
def test_googles_own_protocol_has_googles_field(bridge: Bridge, gemini: ScriptedGemini, stream: bool):
    gemini.will_say(sse({"promptFeedback": {"blockReason": "BLOCKLIST"}}))
    answer = NATIVE.ask(bridge.address, "gemini-3.8-flash", stream=stream)
    assert b'"blockReason":"BLOCKLIST"' in answer.content


@EITHER_WAY
def test_legacy_completions_have_a_reason_and_no_words(bridge: Bridge, gemini: ScriptedGemini, stream: bool):
    gemini.will_say(sse({"promptFeedback": {"blockReason": "BLOCKLIST"}}))
    answer = LEGACY.ask(bridge.address, "gemini-3.8-flash", stream=stream)
    assert b'"finish_reason":"content_filter"' in answer.content
    assert b"stopped this answer" not in answer.content
