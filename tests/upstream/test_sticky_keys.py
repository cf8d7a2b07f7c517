"""A conversation keeps its upstream key: the real app under gunicorn, several keys, clients of each kind."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from growing_clients import CLIENTS, Chained, ClaudeCode, Codex, GrowingClient
from gunicorn_bridge import Bridge, gunicorn_bridge
from scripted_gemini import Asked, Reply, ScriptedGemini, sse, text_chunk
from waiting import eventually

from bridge.state.expiring_names import BETWEEN_LOOKS

KEYS = tuple(f"AIzaSticky0123456789abcdefghijklmnop{number}" for number in range(3))
MODEL = "gemini-3.1-pro-preview"


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


def settings(upstream: ScriptedGemini, **more: str) -> dict[str, str]:
    return {
        "GEMINI_API_KEY": ",".join(KEYS),
        "GOOGLE_GEMINI_BASE_URL": upstream.address,
        "BRIDGE_SERVER__WORKERS": "2",
        **more,
    }


@pytest.fixture(scope="module")
def sticky(upstream: ScriptedGemini) -> Iterator[Bridge]:
    with gunicorn_bridge(**settings(upstream)) as running:
        yield running


@pytest.fixture
def google(upstream: ScriptedGemini) -> ScriptedGemini:
    upstream.forget()
    return upstream


def keys_of(google: ScriptedGemini) -> list[str]:
    return [asked.headers["x-goog-api-key"] for asked in google.asked]


def talk(client: GrowingClient, turns: int) -> None:
    for number in range(turns):
        client.user_says(f"Turn {number}.")
        client.send()


def ask(bridge: Bridge, text: str, headers: dict[str, str] | None = None, **more: Any) -> requests.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **more}
    return requests.post(f"{bridge.address}/v1/chat/completions", json=body, headers=headers, timeout=30)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda kind: kind.__name__)
def test_every_clients_conversation_uses_one_upstream_key(sticky, google, client):
    """This includes conversations that only their opening identifies. Each request has its own connection, so
    either of the two workers may serve it."""
    talk(client(sticky.address, MODEL), turns=8)
    assert len(keys_of(google)) == 8
    assert len(set(keys_of(google))) == 1


def test_a_response_chain_keeps_its_key_when_instructions_change(sticky, google):
    class Changing(Chained):
        def _body(self) -> dict[str, Any]:
            body = {**super()._body(), "instructions": f"Instruction {len(google.asked)}."}
            del body["prompt_cache_key"]
            return body

        def __init__(self, address: str, model: str) -> None:
            super().__init__(address, model)
            self.headers = {"user-agent": "OpenAI/Python"}

    for _ in range(4):  # the chance that all share a key is 1 in 3^20
        google.forget()
        talk(Changing(sticky.address, MODEL), turns=6)
        assert len(set(keys_of(google))) == 1
    told = {line["conversation"] for line in sticky.requests(protocol="openai_responses")[-6:]}
    assert len(told) == 1


def test_conversations_are_spread_over_the_keys(sticky, google):
    for number in range(60):
        ask(sticky, f"Conversation {number}.")
    taken = Counter(keys_of(google))
    assert set(taken) == set(KEYS)
    deviation = (60 * 1 / 3 * 2 / 3) ** 0.5
    assert all(abs(number - 20) < 4 * deviation for number in taken.values()), taken


def keys_by_session(bridge: Bridge, google: ScriptedGemini, sessions: list[str]) -> dict[str, str]:
    google.asked.clear()
    for session in sessions:
        assert ask(bridge, "Hi.", {"X-Session-Id": session}).status_code == 200
    assert len(google.asked) == len(sessions), keys_of(google)
    return dict(zip(sessions, keys_of(google), strict=True))


def test_another_process_chooses_the_same_keys(sticky, upstream, google):
    """With a separate state folder and another order of the keys, only the hash decides."""
    sessions = [f"talk {number}" for number in range(20)]
    here = keys_by_session(sticky, google, sessions)
    with gunicorn_bridge(**settings(upstream, GEMINI_API_KEY=",".join(KEYS[::-1]))) as other:
        assert keys_by_session(other, google, sessions) == here
    assert set(here.values()) == set(KEYS)


def refusing(asked: Asked, tired: str) -> Any:
    if asked.headers["x-goog-api-key"] != tired:
        return sse(text_chunk("Hello.", "STOP"))
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Slow down."}
    return Reply([json.dumps({"error": error}).encode()], status=429)


def test_a_key_without_quota_is_replaced_until_its_cooldown_ends(upstream, google):
    """Each of its conversations uses its next-ranked key; conversations of other keys are unaffected."""
    sessions = [f"talk {number}" for number in range(12)]
    with gunicorn_bridge(**settings(upstream, BRIDGE_UPSTREAM__KEY_COOLDOWN="6")) as running:
        before = keys_by_session(running, google, sessions)
        tired = before[sessions[0]]
        google.will_answer(lambda asked: refusing(asked, tired))
        assert ask(running, "Hi.", {"X-Session-Id": sessions[0]}).status_code == 200
        time.sleep(1.5 * BETWEEN_LOOKS)  # then the other worker has read the cool-down
        during = keys_by_session(running, google, sessions)
        assert all(during[name] == key for name, key in before.items() if key != tired)
        assert tired not in during.values()
        google.forget()

        def woken() -> bool:
            return keys_by_session(running, google, sessions[:1])[sessions[0]] == tired

        assert eventually(woken)
        assert keys_by_session(running, google, sessions) == before


def test_requests_without_a_conversation_rotate_the_keys(sticky, google):
    body = {"content": {"parts": [{"text": "Hi"}]}}
    google.will_answer(lambda _asked: [b'{"embedding": {"values": [1.0]}}'])
    for _ in range(12):
        url = f"{sticky.address}/v1beta/models/gemini-embedding-001:embedContent"
        assert requests.post(url, json=body, timeout=30).status_code == 200
    assert set(keys_of(google)) == set(KEYS)


# --- log fields --------------------------------------------------------------------------------------


def test_session_agent_and_conversation_are_in_the_log(sticky, google):
    claude = ClaudeCode(sticky.address, MODEL)
    talk(claude, turns=1)
    session = claude.headers["X-Claude-Code-Session-Id"]
    main = sticky.request(session=session)
    assert "agent" not in main
    claude.headers["x-claude-code-agent-id"] = "ad31bf54db9d6c21e"
    talk(claude, turns=1)
    agents = sticky.request(session=session, agent="ad31bf54db9d6c21e")
    assert len(main["conversation"]) == 32
    assert agents["conversation"] != main["conversation"]


def test_codex_is_identified_by_session_and_thread(sticky, google):
    codex = Codex(sticky.address, MODEL)
    codex.headers["thread-id"] = "another-thread"
    talk(codex, turns=1)
    assert sticky.request(session=codex.headers["session-id"])["agent"] == "another-thread"


def test_a_session_in_the_metadata_is_in_the_log_too(sticky, google):
    body = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    body["metadata"] = {"user_id": "user_1_account__session_from-the-metadata"}
    requests.post(f"{sticky.address}/v1/messages", json=body, timeout=30)
    assert sticky.request(session="from-the-metadata")


def test_the_log_holds_only_hashes_of_identifiers(sticky, google):
    """A cache key and an opening are client text, so only their digest is logged."""
    ask(sticky, "canary-of-the-prompt", prompt_cache_key="canary-of-the-cache-key")
    assert sticky.request(protocol="openai_chat")["conversation"]
    assert "canary-of-the" not in sticky.lines()


def test_malformed_session_headers_are_ignored(sticky, google):
    headers = {"X-Session-Id": "x" * 3000, "X-Claude-Code-Session-Id": "\xff \xe9"}
    assert ask(sticky, "Hi.", headers).status_code == 200
    assert sticky.request(session="x" * 128)
