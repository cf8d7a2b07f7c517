"""The scripted Gemini of the real-client tests refuses the same calls as Google."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scripted_gemini import Asked, Reply
from signed_conversation import MISSING, WRONG, SignedConversation

TOOLS = [{"functionDeclarations": [{"name": "run"}]}]


def asked(*parts: dict[str, Any]) -> Asked:
    contents = [{"role": "user", "parts": [{"text": "Go."}]}, {"role": "model", "parts": list(parts)}]
    return Asked("POST", "/", {}, {"contents": contents if parts else contents[:1], "tools": TOOLS})


@pytest.fixture
def said():
    """Return a conversation after its first turn, and the two calls of that turn."""
    talk = SignedConversation()
    talk.will(talk.calls(("run", {"n": 1}), ("run", {"n": 2})))
    events = [json.loads(line.removeprefix(b"data: ")) for line in talk(asked())]
    return talk, [event["candidates"][0]["content"]["parts"][0] for event in events]


def test_calls_returned_unchanged_are_accepted(said):
    talk, calls = said
    assert [bool(call.get("thoughtSignature")) for call in calls] == [True, False]
    assert not isinstance(talk(asked(*calls)), Reply)
    assert talk.refused == []


@pytest.mark.parametrize("signature", ["c2tpcA==", "skip_thought_signature_validator"])
def test_a_signature_of_another_call_is_refused(said, signature):
    talk, (first, second) = said
    assert talk(asked(first | {"thoughtSignature": signature}, second)).status == 400
    assert talk.refused == [WRONG]


def test_a_call_without_its_signature_is_refused_also_without_its_id(said):
    talk, (first, second) = said
    bare = {"functionCall": {"name": "run", "args": {"n": 1}}}
    assert talk(asked({"functionCall": first["functionCall"]}, second)).status == 400
    assert talk(asked(bare, second)).status == 400
    assert talk.refused == [MISSING.format(name="run")] * 2


def test_a_request_without_tools_uses_no_scripted_step(said):
    talk, _ = said
    question = Asked("POST", "/", {}, {"contents": [{"role": "user", "parts": [{"text": "A title?"}]}]})
    assert b"A title." in b"".join(talk(question))
    assert len(talk.asked) == 1
