"""Ollama's events as events of Chat Completions, so that one machine reads both."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from bridge.errors import UpstreamMalformed
from bridge.gemini.types import JsonObject

Fields = dict[str, Any]

#: Ollama loaded or unloaded the model, and generated nothing.
_NO_ANSWER = frozenset(("load", "unload"))


def translator(server: str) -> Callable[[Fields], JsonObject]:
    """A function for the events of one answer. Each call arrives whole, so each gets an index of its own."""
    numbers = count()

    def translated(event: Fields) -> JsonObject:
        message = event.get("message")
        message = message if isinstance(message, dict) else {}
        calls = message.get("tool_calls")
        numbered = [
            {**call, "index": next(numbers)}
            for call in (calls if isinstance(calls, list) else ())
            if isinstance(call, dict)
        ]
        choice: Fields = {"delta": {**message, "tool_calls": numbered}}
        if event.get("done") is True:
            choice["finish_reason"] = _finish(event, server)
        return {"model": event.get("model"), "choices": [choice], "usage": _usage(event)}

    return translated


def _finish(event: Fields, server: str) -> str:
    reason = event.get("done_reason")
    if not isinstance(reason, str) or not reason:
        return "stop"
    if reason in _NO_ANSWER:
        raise UpstreamMalformed(f"{server} generated no answer (done_reason {reason}).")
    return reason


def _usage(event: Fields) -> Fields | None:
    """Ollama leaves out the count of a prompt that it has cached completely."""
    if "eval_count" not in event or "prompt_eval_count" not in event:
        return None
    return {"prompt_tokens": event["prompt_eval_count"], "completion_tokens": event["eval_count"]}
