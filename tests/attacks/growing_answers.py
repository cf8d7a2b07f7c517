"""Upstream answers that grow in one dimension, converted to the client's bytes in every protocol."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
from conversations import CONVERSATIONS
from transcripts import Run

from bridge.errors import BridgeError
from bridge.guards.guard_runner import GuardRunner
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import Protocol
from bridge.upstream.masking import Mask
from bridge.upstream.payloads import chunks_in
from tests.attacks.growing_requests import GUARDS
from tests.attacks.measuring import Case, Work
from tests.attacks.protocol_writers import PROTOCOL_CLIENTS

Json = dict[str, Any]
Chunks = Callable[[int], list[Json]]

SECRET = "secret-of-the-upstream"
END = {"candidates": [{"content": {"role": "model", "parts": [{"text": "."}]}, "finishReason": "STOP"}]}


def chunk(*parts: Json, **more: Any) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}]}


def call(number: int, **args: Any) -> Json:
    return {"functionCall": {"name": "run_shell_command", "args": args, "id": f"c{number}"}}


def text(said: str, **more: Any) -> Json:
    return {"text": said, **more}


def _sources(n: int) -> Json:
    support = {"segment": {"endIndex": 1}, "groundingChunkIndices": [0]}
    pages = [{"web": {"uri": "u", "title": "t"}}] * n
    return {"webSearchQueries": ["q"] * n, "groundingChunks": pages, "groundingSupports": [support] * n}


def _patch(n: int) -> str:
    return "*** Begin Patch\n" + "+*** Update File: a\n@@\n+x\n" * n + "+*** End of File\n*** End Patch\n"


def _probable(n: int) -> list[Json]:
    token = {"token": "a", "logProbability": -1.0}
    told = {"chosenCandidates": [token], "topCandidates": [{"candidates": [token, token]}]}
    return [chunk(text("a"), logprobsResult=told, citationMetadata={"citations": [{"uri": "u"}]})] * n


ANSWERS: dict[str, Chunks] = {
    "chunks of text": lambda n: [chunk(text("Hello "))] * n,
    "texts in one chunk": lambda n: [chunk(*[text("Hello ")] * n)],
    "length of a text": lambda n: [chunk(text("Hello " * 50 * n))],
    "line separators": lambda n: [chunk(text("\u2028\u2029\x85" * 20 * n))],
    "chunks of thoughts": lambda n: [chunk(text("Hm. ", thought=True))] * n,
    "thoughts and texts by turns": lambda n: [chunk(text("Hm.", thought=True)), chunk(text("So."))] * n,
    "signed thoughts": lambda n: [chunk(text("Hm.", thought=True, thoughtSignature="s"))] * n,
    "signed texts": lambda n: [chunk(text("So.", thoughtSignature="s"))] * n,
    "calls in one chunk": lambda n: [chunk(*[call(number, a="b") for number in range(n)])],
    "calls one after the other": lambda n: [chunk(call(number, a="b")) for number in range(n)],
    "signed calls": lambda n: [chunk({**call(number), "thoughtSignature": "s"}) for number in range(n)],
    "calls of one id": lambda n: [chunk(call(1, a="b"))] * n,
    "length of arguments": lambda n: [chunk(call(1, a="b" * 100 * n))],
    "number of arguments": lambda n: [chunk(call(1, **{f"a{number}": [1] for number in range(n)}))],
    "commands": lambda n: [chunk(call(1, command="sudo " * n))],
    "words": lambda n: [chunk(call(1, command=["sudo", "-u"] * n))],
    "a patch": lambda n: [chunk(call(1, command=_patch(n), input=_patch(n)))],
    "patches": lambda n: [chunk(call(1, command=_patch(1) * n, input=[_patch(1)] * n))],
    "images": lambda n: [chunk({"inlineData": {"mimeType": "image/png", "data": "aaaa"}})] * n,
    "unknown parts": lambda n: [chunk({"newThing": {"a": 1}, "other": 2})] * n,
    "executed code": lambda n: [chunk({"executableCode": {"code": "1"}})] * n,
    "searches": lambda n: [chunk({"text": "x"}), *[chunk({"toolCall": {"id": "1"}})] * n],
    "log probabilities": _probable,
    "sources": lambda n: [chunk(text("a"), groundingMetadata=_sources(n))],
    "sources of many texts": lambda n: [
        chunk(text("a"), groundingMetadata=_sources(n)),
        *[chunk(text("a", thoughtSignature="s"))] * n,
    ],
    "candidates": lambda n: [{"candidates": [{**END["candidates"][0], "index": i % 8} for i in range(n)]}],
    "usage": lambda n: [{**chunk(text("a")), "usageMetadata": {f"x{i}": i for i in range(n)}}] * 4,
    "unknown fields": lambda n: [{**chunk(text("a")), **{f"x{i}": [i] for i in range(n)}}],
    "chunks that quote the key": lambda n: [chunk(text(f"Your key is {SECRET}."))] * n,
    "an array of chunks": lambda n: [[chunk(text("a"))] * n],  # type: ignore[list-item]
}


#: How a request asks for log probabilities.
LOGPROBS: dict[str, Json] = {"openai_chat": {"logprobs": True}, "openai_completions": {"logprobs": 2}}


def tools_of(protocol: Protocol) -> Json:
    """Declare the tools that the guards know, and request every optional output."""
    writer, schema = PROTOCOL_CLIENTS[protocol.name], {"type": "object", "properties": {"command": {}}}
    tools = [writer.tool(name, schema) for name in ("run_shell_command", "shell", "apply_patch")]
    return {"tools": tools, **LOGPROBS.get(protocol.name, {})}


def convert(protocol: Protocol, answer: list[bytes], sent: bytes) -> None:
    conversation = CONVERSATIONS[protocol.name]
    run = Run(protocol, conversation.opening | tools_of(protocol), caller=conversation.callers[""])
    watch, framing = GuardRunner(GUARDS, "request"), protocol.framing(run.asked)
    watch.request(run.asked.request)
    events = []
    with suppress(BridgeError):
        for batch in chunks_in(answer, "m", Mask(SECRET, sent)):
            events += run.machine.feed([watch.feed(run.adapter.feed(each)) for each in batch])
    events += run.machine.finish()
    framing.encode_events(events)
    framing.keep_alive()
    if run.machine.error is None:
        run.machine.fold(events)


def answer_case(protocol: Protocol, chunks: Chunks) -> Case:
    def sized(n: int) -> Work:
        named = [*chunks(n), END]
        answer = [b"data: %b\r\n\r\n" % orjson.dumps(each) for each in named]
        sent = b"x" * 1000 * n
        return lambda: convert(protocol, answer, sent)

    return sized


def _renamed(tool: str, chunks: Chunks) -> Chunks:
    """Return the same calls to another tool: guards select by the tool's name."""

    def made(n: int) -> list[Json]:
        written = orjson.dumps(chunks(n)).replace(b"run_shell_command", tool.encode())
        renamed: list[Json] = orjson.loads(written)
        return renamed

    return made


def answer_cases() -> dict[str, Case]:
    """Return a case for every dimension in every protocol."""
    chunks = dict(ANSWERS)
    for tool in ("shell", "apply_patch"):
        chunks |= {f"{name} of {tool}": _renamed(tool, ANSWERS[name]) for name in ("commands", "words")}
        chunks |= {f"{name} of {tool}": _renamed(tool, ANSWERS[name]) for name in ("a patch", "patches")}
    return {
        f"{protocol.name} tells {name}": answer_case(protocol, made)
        for protocol in PROTOCOLS
        for name, made in chunks.items()
    }
