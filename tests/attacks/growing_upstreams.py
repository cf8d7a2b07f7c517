"""Growing requests to servers of other vendors, and their growing answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import orjson
from scripted_chat import LOOK, calls, choice, counted, end, line, lines, piece, sse, text

from bridge.errors import BridgeError
from bridge.gemini.types import (
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    OtherData,
    Part,
    Tool,
)
from bridge.upstream.masking import Mask
from bridge.upstream.ollama import request as ollama
from bridge.upstream.ollama.answer import translator
from bridge.upstream.ollama.lines import LineDecoder
from bridge.upstream.ollama.models import shown_model
from bridge.upstream.openai import listed_models
from bridge.upstream.openai.answer import AskedFor, ChatAnswer
from bridge.upstream.openai.dialects import DIALECTS
from bridge.upstream.openai.embeddings import embedding_body, google_answer, requests_in, vectors_in
from bridge.upstream.openai.errors import error_from_body, error_in
from bridge.upstream.openai.reader import ChatReader
from bridge.upstream.openai.request import chat_body, losses_of
from bridge.upstream.overflow import overflow_in
from bridge.upstream.payloads import decoded
from bridge.upstream.transport.sse_decoder import SseDecoder
from tests.attacks.measuring import Case, Work

SERVER = "Upstream qwen"
READ = 16_384
ASKED = AskedFor(frozenset((LOOK,)), True, 1, 4, SERVER)


def _read(body: bytes, decoder: Any, translate: Any = None) -> None:
    translation = () if translate is None else (translate,)
    reader = ChatReader(
        ChatAnswer(ASKED), lambda event: error_in(event, "m", SERVER), Mask(), SERVER, *translation
    )
    pieces = (body[place : place + READ] for place in range(0, len(body), READ))
    with suppress(BridgeError):
        for _ in decoded(pieces, decoder, reader, SERVER):
            pass


def answers(*events: Callable[[int], Iterator[Any]]) -> Case:
    def sized(n: int) -> Work:
        body = sse(*(event for make in events for event in make(n)), end("stop"), counted())
        return lambda: _read(body, SseDecoder(SERVER))

    return sized


def _lines(n: int) -> Work:
    call = {"tool_calls": [piece(LOOK, {"a": 1})]}
    body = lines(*[line({"content": "a"})] * n, *[line(call)] * n, line({}, done=True))
    return lambda: _read(body, LineDecoder(SERVER), translator(SERVER))


def _one_line(n: int) -> Work:
    body = lines(line({"content": "a" * 1000 * n}), line({}, done=True))
    return lambda: _read(body, LineDecoder(SERVER), translator(SERVER))


def _requests(n: int) -> Work:
    call = Part(FunctionCall(LOOK, {"at": "/"}))
    result = Part(FunctionResponse(LOOK, {"n": 1}, media=(InlineData("image/png", "aGk="),)))
    ran = Part(OtherData("executableCode", {"code": "1"}))
    turns = (
        Content("model", (Part("Hm.", thought=True), Part("So."), ran, *[call] * n)),
        Content("user", (*[result] * n, *[Part("And?")] * n)),
    )
    old = {"type": "OBJECT", "properties": {str(number): {"type": "STRING"} for number in range(n)}}
    tools = [FunctionDeclaration(f"t{number}", extra={"parameters": {"anyOf": [old]}}) for number in range(3)]
    request = GenerateRequest(
        "m",
        (Content("user", (Part("Hello"),)), *turns * 3),
        Content(None, (Part("Be brief."),) * n),
        (Tool((*tools, *[FunctionDeclaration(LOOK)] * n)),),
        {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [LOOK]}},
        {f"x{number}": 1 for number in range(n)},
    )

    def work() -> None:
        for dialect in (DIALECTS["mistral"], DIALECTS["vllm"]):
            orjson.dumps(chat_body(request, dialect, SERVER), default=dict)
            losses_of(request, dialect)
        orjson.dumps(ollama.chat_body(request, 100, thinks=True, server=SERVER), default=dict)
        ollama.losses_of(request)

    return work


def _refusals(n: int) -> Work:
    choices = [{"delta": {}}] * n
    body = orjson.dumps({"error": {"message": "maximum context length is 1 tokens " * n}})
    return lambda: (
        error_in({"choices": choices}, "m", SERVER),
        error_from_body(400, body, "m", None, SERVER),
        overflow_in("token count " * n),
        overflow_in("1" * 10 * n),
    )


def _vectors(n: int) -> Work:
    body = {"requests": [{"content": {"parts": [{"text": "a"}] * 3}}] * n}
    data = {"data": [{"index": number, "embedding": [0.5] * 4} for number in range(n)]}

    def work() -> None:
        embedding_body("m", requests_in("m", "batchEmbedContents", body))
        google_answer("batchEmbedContents", vectors_in(data), n, 1, SERVER)

    return work


def _lists(n: int) -> Work:
    listed = [{"id": f"m{number}", "max_model_len": 1} for number in range(n)]
    info = {f"a{number}.b": 1 for number in range(n)}
    return lambda: (listed_models(listed), shown_model({"model_info": info, "parameters": "stop x\n" * n}))


UPSTREAM_CASES: dict[str, Case] = {
    "chat: texts": answers(lambda n: (text(f"{number} ") for number in range(n))),
    "chat: a cumulative text": answers(lambda n: (text("ab" * 4 * (number + 4)) for number in range(20))),
    "chat: thoughts in parts": answers(
        lambda n: iter([choice({"content": [{"thinking": [{"text": "a"}] * n}, {"text": "a"}]})])
    ),
    "chat: calls": answers(lambda n: (calls(piece(LOOK, '{"a":1}', id=f"c{number}")) for number in range(n))),
    "chat: calls in one event": answers(lambda n: iter([calls(*[piece(LOOK, '{"a":1}')] * n)])),
    "chat: calls without arguments between texts": answers(
        lambda n: (
            each
            for number in range(n)
            for each in (calls(piece(LOOK, "", id=f"c{number}")), text(f"{number}"))
        )
    ),
    "chat: a call in pieces": answers(
        lambda n: iter([calls(piece(LOOK, '{"a":"', index=0, id="a"))]),
        lambda n: (calls(piece(LOOK, 'x\\"{', index=0)) for _ in range(n)),
        lambda n: iter([calls(piece(None, '"}', index=0))]),
        lambda n: (calls(piece(LOOK, "{}", index=0)) for _ in range(n)),
    ),
    "chat: log probabilities": answers(
        lambda n: iter(
            [choice({"content": "a"}, logprobs={"content": [{"token": "a", "top_logprobs": [{}]}] * n})]
        )
    ),
    "chat: choices": answers(
        lambda n: iter([{"choices": [{"index": number, "delta": {"content": "a"}} for number in range(n)]}])
    ),
    "ollama: lines": _lines,
    "ollama: a long line": _one_line,
    "upstreams: requests": _requests,
    "upstreams: refusals": _refusals,
    "upstreams: vectors": _vectors,
    "upstreams: lists": _lists,
}
