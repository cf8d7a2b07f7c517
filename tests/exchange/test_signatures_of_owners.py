"""A client finds only the thought signatures of its own answers."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import requests
from gunicorn_bridge import Bridge
from scripted_gemini import ScriptedGemini, call_chunk, sse


def look_around(bridge: Bridge, key: str, *history: dict[str, Any]) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    answer = requests.post(
        f"{bridge.address}/v1/chat/completions",
        json={"model": "gpt-5", "messages": [{"role": "user", "content": "Look"}, *history], "tools": [tool]},
        headers={"Authorization": f"Bearer {key}"},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


def signatures_sent(gemini: ScriptedGemini) -> list[str | None]:
    parts = (part for content in gemini.asked[-1].body["contents"] for part in content["parts"])
    return [part.get("thoughtSignature") for part in parts if "functionCall" in part]


def test_a_call_id_of_another_owner_finds_nothing(bridge: Bridge, gemini: ScriptedGemini) -> None:
    call_id = uuid4().hex
    gemini.will_say(sse(call_chunk("look", {}, call_id, "c2lnbmVkLWZvci1hbGljZQ==", "STOP")))
    (call,) = look_around(bridge, "alice")["tool_calls"]
    del call["extra_content"]  # as many clients do
    past = (
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": "x"},
    )
    look_around(bridge, "mallory", *past)
    assert "c2lnbmVkLWZvci1hbGljZQ==" not in signatures_sent(gemini)
    look_around(bridge, "alice", *past)
    assert signatures_sent(gemini) == ["c2lnbmVkLWZvci1hbGljZQ=="]
