"""A Gemini that signs its calls and, like Google, refuses calls that come back unsigned."""

from __future__ import annotations

import base64
import json
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import uuid4

from scripted_gemini import Asked, Reply, call_chunk, sse, text_chunk

MISSING = "Function call is missing a thought_signature in functionCall parts. Function call `{name}`."
WRONG = "Corrupted thought signature."

#: The answer to a request: a whole reply, or a function that makes one from the request.
Step = Reply | list[Any] | Callable[[Asked], Any]


def refusal(status: int, name: str, message: str) -> Reply:
    envelope = {"error": {"code": status, "status": name, "message": message, "details": []}}
    return Reply([json.dumps(envelope).encode()], status=status)


def parts(asked: Asked, kind: str) -> list[dict[str, Any]]:
    return [part for content in asked.body["contents"] for part in content["parts"] if kind in part]


def has_tools(asked: Asked) -> bool:
    return any(tool.get("functionDeclarations") for tool in (asked.body or {}).get("tools", ()))


class SignedConversation:
    """Plays its steps in order. Requests without tools, for example for a title, use no step."""

    def __init__(self, *steps: Step) -> None:
        self.asked: list[Asked] = []  #: the requests of the main conversation
        self.refused: list[str] = []
        self._steps = deque(steps)
        self._signatures: dict[str, str | None] = {}
        self._names = count(1)
        self._lock = threading.Lock()
        self._unique = uuid4().hex[:8]

    def will(self, *steps: Step) -> None:
        self._steps.extend(steps)

    def __call__(self, asked: Asked) -> Any:
        if not has_tools(asked):
            return sse(text_chunk("A title.", "STOP"))
        with self._lock:
            self.asked.append(asked)
            broken = next(filter(None, map(self._broken, count(), parts(asked, "functionCall"))), None)
            if broken:
                self.refused.append(broken)
                return refusal(400, "INVALID_ARGUMENT", broken)
            step = self._steps.popleft() if self._steps else sse(text_chunk("There is no more.", "STOP"))
            return step(asked) if callable(step) else step

    def calls(self, *calls: tuple[str, dict[str, Any]], thought: str | None = None) -> list[bytes]:
        """Return a turn of calls after a thought; the first call is signed."""
        chunks = [self._call(name, args, number == 0) for number, (name, args) in enumerate(calls)]
        chunks[-1]["candidates"][0]["finishReason"] = "STOP"
        thinking = [{"text": thought, "thought": True}] if thought else []
        opening = {"candidates": [{"content": {"role": "model", "parts": thinking}, "index": 0}]}
        return sse(*([opening] if thinking else []), *chunks)

    def _call(self, name: str, args: dict[str, Any], signed: bool) -> Any:
        call_id = f"call-{self._unique}-{next(self._names)}"
        signature = base64.b64encode(f"signed {call_id}".encode()).decode() if signed else None
        self._signatures[call_id] = signature
        return call_chunk(name, args, call_id, signature)

    def _broken(self, number: int, part: dict[str, Any]) -> str | None:
        """Return the error in a call. Clients of Google's own protocol may omit the id."""
        call, signature = part["functionCall"], part.get("thoughtSignature")
        in_order = [*self._signatures.values(), None]
        expected = self._signatures.get(call.get("id"), in_order[min(number, len(in_order) - 1)])
        if signature == expected:
            return None
        return WRONG if signature else MISSING.format(name=call["name"])
