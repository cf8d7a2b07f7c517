"""Clients of each protocol, plain enough to see what really came: status, headers and every byte."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import requests


@dataclass(frozen=True)
class Asker:
    name: str
    path: str
    body: dict[str, Any]
    good_ends: tuple[str, ...]  #: the stream's last event, when all went well
    bad_ends: tuple[str, ...]
    sign_of_life: bytes
    headers: dict[str, str] = field(default_factory=dict)

    def request(self, model: str, stream: bool) -> tuple[str, dict[str, Any]]:
        """The path and the body."""
        return self.path, {**self.body, "model": model, "stream": stream}

    def ask(self, address: str, model: str, *, stream: bool, timeout: float = 60, **more: Any) -> Answer:
        path, body = self.request(model, stream)
        response = requests.post(address + path, json={**body, **more}, headers=self.headers, timeout=timeout)
        return Answer(self, response.status_code, dict(response.headers), response.content, stream)


class NativeAsker(Asker):
    def request(self, model: str, stream: bool) -> tuple[str, dict[str, Any]]:
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"{self.path}/{model}:{method}", self.body


@dataclass(frozen=True)
class Answer:
    asker: Asker
    status: int
    headers: dict[str, str]
    content: bytes
    stream: bool

    @property
    def events(self) -> list[str]:
        """The kind of each event, as its protocol names it."""
        data = [line[6:] for line in self.content.split(b"\n") if line.startswith(b"data: ")]
        return [kind_of(each) for each in data]

    @property
    def ended_well(self) -> bool:
        """With the end of a whole answer."""
        if not self.stream:
            return self.status == 200
        return self.status == 200 and self.events[-1:] != [] and self.events[-1] in self.asker.good_ends

    @property
    def ended_legally(self) -> bool:
        """With a whole answer, an error in the stream, or an error instead of one."""
        if self.status != 200 or not self.stream:
            return "error" in json.loads(self.content) or self.status == 200
        return self.events[-1] in (*self.asker.good_ends, *self.asker.bad_ends)

    @property
    def failed(self) -> bool:
        told = (b'"error":{', b'"finishReason":"MALFORMED')  # Gemini's own clients read the reason themselves
        return self.status != 200 or any(each in self.content for each in told)


def kind_of(data: bytes) -> str:
    if data == b"[DONE]":
        return "[DONE]"
    event = json.loads(data)
    if "candidates" in event:
        return "last chunk" if any("finishReason" in each for each in event["candidates"]) else "chunk"
    return str(event.get("type") or event.get("object") or next(iter(event), "nothing"))


HELLO = [{"role": "user", "content": "Hello"}]

CHAT = Asker(
    "chat", "/v1/chat/completions", {"messages": HELLO}, ("[DONE]",), ("[DONE]",), b": keep-alive\n\n"
)
MESSAGES = Asker(
    "messages",
    "/v1/messages",
    {"messages": HELLO, "max_tokens": 100},
    ("message_stop",),
    ("error",),
    b'event: ping\ndata: {"type":"ping"}\n\n',
)
RESPONSES = Asker(
    "responses",
    "/v1/responses",
    {"input": "Hello", "store": False},
    ("response.completed",),
    ("response.completed",),
    b'data: {"type":"keepalive"}\n\n',
)
CODEX = Asker(
    "codex",
    "/v1/responses",
    {"input": "Hello", "store": False},
    ("response.completed",),
    ("response.failed",),
    b'data: {"type":"keepalive"}\n\n',
    {"originator": "codex_exec"},
)
NATIVE = NativeAsker(
    "native",
    "/v1beta/models",
    {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    ("last chunk",),
    ("error",),
    b"   ",  # blanks inside an event that was begun early
)
INTERACTIONS = Asker(
    "interactions",
    "/v1beta/interactions",
    {"input": "Hello", "store": False},
    ("[DONE]",),
    ("[DONE]",),
    b"",
)
ASKERS = (CHAT, MESSAGES, RESPONSES, CODEX, NATIVE)
