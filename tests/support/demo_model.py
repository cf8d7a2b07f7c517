"""Requests to the demo model, and its answers in wire format."""

from __future__ import annotations

from typing import Any

import orjson

from bridge import errors
from bridge.gemini.types import Chunk
from bridge.gemini.wire import request_from_json
from bridge.upstream.demo import DemoUpstream, server, signatures

WEATHER = {
    "name": "get_weather",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 2}},
        "required": ["city", "days"],
    },
}
SHELL = {
    "name": "shell",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"command": {"type": "array", "items": {"type": "string"}}},
        "required": ["command"],
    },
}
TOOLS = [{"functionDeclarations": [WEATHER, SHELL]}]


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}], **fields}


def wire(body: dict[str, Any], model: str = "demo") -> list[dict[str, Any]]:
    """Return the chunks as the server sends them."""
    reply = server.answer(model, body)
    assert reply.status == 200
    sent = b"".join(item for item in reply.body if isinstance(item, bytes))
    assert sent.endswith(b"\r\n\r\n")
    return [orjson.loads(event.removeprefix(b"data: ")) for event in sent.split(b"\r\n\r\n")[:-1]]


def refusal(body: dict[str, Any], model: str) -> dict[str, Any]:
    reply = server.answer(model, body)
    assert reply.status >= 400
    envelope: dict[str, Any] = orjson.loads(b"".join(item for item in reply.body if isinstance(item, bytes)))
    assert envelope["error"]["code"] == reply.status
    return envelope["error"]


def parts(chunks: list[dict[str, Any]], number: int = 0) -> list[dict[str, Any]]:
    candidates = [each for chunk in chunks for each in chunk.get("candidates", ()) if each["index"] == number]
    return [part for each in candidates for part in each["content"].get("parts", ())]


def text(chunks: list[dict[str, Any]], number: int = 0) -> str:
    return "".join(part.get("text", "") for part in parts(chunks, number) if not part.get("thought"))


def calls(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part["functionCall"] for part in parts(chunks) if "functionCall" in part]


def finishes(chunks: list[dict[str, Any]]) -> list[str]:
    return [
        each["finishReason"] for chunk in chunks for each in chunk["candidates"] if "finishReason" in each
    ]


def play(body: dict[str, Any], model: str = "demo") -> tuple[list[Chunk], errors.BridgeError | None]:
    """Return everything that the upstream yields, and the exception that it raises at the end."""
    received: list[Chunk] = []
    try:
        for batch in DemoUpstream(pace=0).stream(request_from_json(model, body)):
            received.extend(batch)
    except errors.BridgeError as error:
        return received, error
    return received, None


SIGNATURE = signatures.mint(b"test")
UNSIGNED = {"functionCall": {"name": "get_weather", "args": {}}}
SIGNED = UNSIGNED | {"thoughtSignature": SIGNATURE}
ANSWERED = {"functionResponse": {"name": "get_weather", "response": {"output": "fine"}}}
USER = {"role": "user", "parts": [{"text": "What is the weather?"}]}


def turn(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def answered(model_parts: list[dict[str, Any]]) -> dict[str, Any]:
    responses = [orjson.loads(orjson.dumps(ANSWERED)) for part in model_parts if "functionCall" in part]
    return {"contents": [USER, turn("model", *model_parts), turn("user", *responses)], "tools": TOOLS}
