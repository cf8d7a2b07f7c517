"""Clients of each protocol that expose the raw response: status, headers and every byte."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import requests


@dataclass(frozen=True)
class RawClient:
    name: str
    path: str
    body: dict[str, Any]
    good_ends: tuple[str, ...]  #: last event of a successful stream
    bad_ends: tuple[str, ...]
    sign_of_life: bytes
    headers: dict[str, str] = field(default_factory=dict)

    def request(self, model: str, stream: bool) -> tuple[str, dict[str, Any]]:
        """Return the path and the body."""
        return self.path, {**self.body, "model": model, "stream": stream}

    def ask(self, address: str, model: str, *, stream: bool, timeout: float = 60, **more: Any) -> Answer:
        path, body = self.request(model, stream)
        response = requests.post(address + path, json={**body, **more}, headers=self.headers, timeout=timeout)
        return Answer(self, response.status_code, dict(response.headers), response.content, stream)


class NativeRawClient(RawClient):
    def request(self, model: str, stream: bool) -> tuple[str, dict[str, Any]]:
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"{self.path}/{model}:{method}", self.body


@dataclass(frozen=True)
class Answer:
    raw_client: RawClient
    status: int
    headers: dict[str, str]
    content: bytes
    stream: bool

    @property
    def events(self) -> list[str]:
        """Return the type of each event, as its protocol names it."""
        data = [line[6:] for line in self.content.split(b"\n") if line.startswith(b"data: ")]
        return [kind_of(each) for each in data]

    @property
    def ended_well(self) -> bool:
        """Whether the answer ended as a complete answer."""
        if not self.stream:
            return self.status == 200
        return self.status == 200 and self.events[-1:] != [] and self.events[-1] in self.raw_client.good_ends

    @property
    def ended_legally(self) -> bool:
        """Whether the answer is complete, ends with an error event, or is an error response."""
        if self.status != 200 or not self.stream:
            return "error" in json.loads(self.content) or self.status == 200
        return self.events[-1] in (*self.raw_client.good_ends, *self.raw_client.bad_ends)

    @property
    def failed(self) -> bool:
        told = (b'"error":{', b'"finishReason":"MALFORMED')  # native clients read this reason
        return self.status != 200 or any(each in self.content for each in told)


def kind_of(data: bytes) -> str:
    if data == b"[DONE]":
        return "[DONE]"
    event = json.loads(data)
    if "candidates" in event:
        return "last chunk" if any("finishReason" in each for each in event["candidates"]) else "chunk"
    return str(event.get("type") or event.get("object") or next(iter(event), "nothing"))


HELLO = [{"role": "user", "content": "Hello"}]

CHAT = RawClient(
    "chat", "/v1/chat/completions", {"messages": HELLO}, ("[DONE]",), ("[DONE]",), b": keep-alive\n\n"
)
MESSAGES = RawClient(
    "messages",
    "/v1/messages",
    {"messages": HELLO, "max_tokens": 100},
    ("message_stop",),
    ("error",),
    b'event: ping\ndata: {"type":"ping"}\n\n',
)
RESPONSES = RawClient(
    "responses",
    "/v1/responses",
    {"input": "Hello", "store": False},
    ("response.completed",),
    ("response.completed",),
    b'data: {"type":"keepalive"}\n\n',
)
CODEX = RawClient(
    "codex",
    "/v1/responses",
    {"input": "Hello", "store": False},
    ("response.completed",),
    ("response.failed",),
    b'data: {"type":"keepalive"}\n\n',
    {"originator": "codex_exec"},
)
NATIVE = NativeRawClient(
    "native",
    "/v1beta/models",
    {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    ("last chunk",),
    ("error",),
    b"   ",  # whitespace inside an event that was opened early
)
INTERACTIONS = RawClient(
    "interactions",
    "/v1beta/interactions",
    {"input": "Hello", "store": False},
    ("[DONE]",),
    ("[DONE]",),
    b"",
)
RAW_CLIENTS = (CHAT, MESSAGES, RESPONSES, CODEX, NATIVE)
