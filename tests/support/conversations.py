"""For each protocol: a request that starts a conversation, and the one that goes on after an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Conversation(NamedTuple):
    opening: dict[str, Any]
    goes_on: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]  #: opening and answer → next request


def _chat_goes_on(opening: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    message = answer["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "fine"}
        for call in message.get("tool_calls") or ()
    ]
    more = [message, *results, {"role": "user", "content": "Go on."}]
    return {**opening, "messages": [*opening["messages"], *more]}


CONVERSATIONS = {
    "openai_chat": Conversation(
        {
            "model": "gpt-5",
            "messages": [{"role": "user", "content": "Please do."}],
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        _chat_goes_on,
    ),
}
