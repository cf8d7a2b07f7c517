"""What servers really send: the same answer in any pieces, and an error if it is truncated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripted_chat import LIST, LOOK, QUIRKS, Quirk, calls, choice, end, piece, sse, text
from scripted_gemini import CUT, Reply, ScriptedGemini
from upstream_rigs import read

from bridge import errors
from bridge.errors import BridgeError
from bridge.gemini.types import Chunk, Content, FunctionCall, FunctionDeclaration, GenerateRequest, Part, Tool
from bridge.upstream.base import Upstream
from bridge.upstream.http_upstream import HttpStream
from bridge.upstream.masking import Mask
from bridge.upstream.openai.dialects import DIALECTS

TOOLS = (Tool((FunctionDeclaration(LOOK, "Look."), FunctionDeclaration(LIST, "List."))),)
REQUEST = GenerateRequest("qwen3-coder", (Content("user", (Part("Hello"),)),), tools=TOOLS)
#: Sockets are slow, so only some truncations use them.
STRIDE = 41

Decode = Callable[[list[bytes]], Iterator[Any]]


def name_of(quirk: Quirk) -> str:
    return f"{quirk.kind}: {quirk.name}"


each_quirk = pytest.mark.parametrize("quirk", QUIRKS, ids=name_of)


def upstream_of(quirk: Quirk, make: Callable[..., Upstream]) -> Upstream:
    return make(quirk.kind, dialect=quirk.dialect)


def joined(chunks: list[Chunk]) -> dict[str, Any]:
    """Return what the chunks say, however it is spread over them."""
    parts = [part for chunk in chunks for candidate in chunk.candidates for part in candidate.parts]
    texts = [part for part in parts if isinstance(part.data, str)]
    found = [part.data for part in parts if isinstance(part.data, FunctionCall)]
    reasons = [candidate.finish_reason for chunk in chunks for candidate in chunk.candidates]
    return {
        "text": "".join(str(part.data) for part in texts if not part.thought),
        "thoughts": "".join(str(part.data) for part in texts if part.thought),
        "calls": [(call.name, dict(call.args or {})) for call in found],
        "ids": [call.id for call in found],
        "finish": [reason for reason in reasons if reason],
    }


def check(quirk: Quirk, chunks: list[Chunk]) -> None:
    said = joined(chunks)
    assert said["text"] == quirk.text
    assert said["thoughts"] == quirk.thoughts
    assert said["calls"] == list(quirk.calls)
    assert said["finish"] == [quirk.finish]
    if quirk.ids:
        assert said["ids"] == list(quirk.ids)
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt


def test_each_dialect_has_a_scripted_answer() -> None:
    assert {quirk.dialect for quirk in QUIRKS if quirk.kind == "openai"} == DIALECTS.keys()
    assert "ollama" in {quirk.kind for quirk in QUIRKS}


def decoder(upstream: Upstream) -> Decode:
    """Return the function that decodes the pieces of one answer, without a socket."""

    def decode(pieces: list[bytes]) -> Iterator[Any]:
        stream = upstream.stream(REQUEST)
        assert isinstance(stream, HttpStream)
        return iter(chunk for batch in stream._decode(iter(pieces), Mask()) for chunk in batch)

    return decode


@each_quirk
def test_the_answer_over_a_socket_one_byte_at_a_time(
    quirk: Quirk, make: Callable[..., Upstream], api: ScriptedGemini
) -> None:
    upstream = upstream_of(quirk, make)
    api.will_say(
        Reply([quirk.body]), Reply([quirk.body[place : place + 1] for place in range(len(quirk.body))])
    )
    check(quirk, read(upstream, REQUEST))
    check(quirk, read(upstream, REQUEST))


@each_quirk
def test_the_answer_cut_at_every_byte_into_two_pieces(quirk: Quirk, make: Callable[..., Upstream]) -> None:
    decode, body = decoder(upstream_of(quirk, make)), quirk.body
    for place in range(1, len(body)):
        check(quirk, list(decode([body[:place], body[place:]])))


@each_quirk
def test_a_truncated_answer_is_an_error_and_never_half_a_call(
    quirk: Quirk, make: Callable[..., Upstream]
) -> None:
    decode, body = decoder(upstream_of(quirk, make)), quirk.body
    for place in range(len(body)):
        chunks: list[Chunk] = []
        try:
            chunks.extend(decode([body[:place]]))
        except errors.UpstreamTruncated:
            assert not joined(chunks)["finish"]
        else:
            assert any(mark in body[:place] for mark in (b'"finish_reason":"', b'"done":true', b"[DONE]"))
            check(quirk, chunks)
        assert all(call in quirk.calls for call in joined(chunks)["calls"])


@each_quirk
def test_a_connection_that_breaks_in_the_middle(
    quirk: Quirk, make: Callable[..., Upstream], api: ScriptedGemini
) -> None:
    upstream = upstream_of(quirk, make)
    for place in range(1, len(quirk.body) - 10, STRIDE):
        api.will_say([quirk.body[:place], CUT])
        with pytest.raises(errors.UpstreamTruncated):
            read(upstream, REQUEST)


MALFORMED = {
    "two objects in one call": sse(
        calls(piece(LOOK, '{"a":1}', index=0)), calls(piece(None, '{"b":2}', index=0)), end()
    ),
    "another name in the middle of a call": sse(
        calls(piece(LOOK, '{"a"', index=0)), calls(piece(LIST, ":1}", index=0)), end()
    ),
    "arguments that are a list": sse(calls(piece(LOOK, "[1]", index=0)), end()),
    "half of the arguments": sse(calls(piece(LOOK, '{"a":', index=0)), end()),
    "half of the arguments and the end of the answer": sse(calls(piece(LOOK, '{"a":', index=0)), end("stop")),
    "a call without a name": sse(calls(piece(None, "{}", index=0)), end()),
    "a finish reason for calls without a call": sse(text("Hi"), end("tool_calls")),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_call_is_an_error(
    body: bytes, make: Callable[..., Upstream], api: ScriptedGemini
) -> None:
    api.will_say(Reply([body]))
    with pytest.raises(errors.UpstreamMalformed) as caught:
        read(make(), REQUEST)
    assert "qwen" in caught.value.message
    assert "Gemini" not in caught.value.message


IN_STREAM: dict[str, tuple[bytes, type[BridgeError]]] = {
    "OpenRouter": (
        sse(text("Hi"), {"error": {"code": 502, "message": "no"}, **choice({"content": ""}, "error")}),
        errors.UpstreamUnreachable,
    ),
    "vLLM": (
        sse(text("Hi"), {"error": {"message": "no", "type": "BadRequestError", "code": 400}}),
        errors.UpstreamRefused,
    ),
    "an old vLLM": (sse({"object": "error", "message": "no", "code": 503}), errors.UpstreamOverloaded),
    "DashScope": (
        sse(choice({"content": "Throttling: TPM(10680324/10000000)"}, "error_finish")),
        errors.UpstreamRateLimited,
    ),
    "a word instead of a number": (
        sse({"error": {"message": "no", "code": "rate_limit_exceeded"}}),
        errors.UpstreamRateLimited,
    ),
    "an overflow": (
        sse({"error": {"message": "This model's maximum context length is 8 tokens", "code": 400}}),
        errors.ContextOverflow,
    ),
    "a text": (sse({"error": "the model crashed"}), errors.UpstreamUnreachable),
    "DeepSeek without resources": (
        sse(text("Hi"), end("insufficient_system_resource")),
        errors.UpstreamTruncated,
    ),
    "a status of many digits": (
        sse({"error": {"message": "no", "code": "9" * 5000}}),
        errors.UpstreamUnreachable,
    ),
    "a finish reason that is a list": (sse(choice({}, ["stop"]), done=False), errors.UpstreamTruncated),  # type: ignore[arg-type]
    "HTML": (b"<html>\n<body>Bad gateway</body>\n</html>\n", errors.UpstreamMalformed),
    "nothing": (b"", errors.UpstreamTruncated),
    "only the end": (b"data: [DONE]\n\n", errors.UpstreamTruncated),
    "half of a JSON object": (
        sse(text("Hi"), done=False) + b'data: {"choices": [{"del',
        errors.UpstreamTruncated,
    ),
    "a JSON text": (b'data: "Hi"\n\n', errors.UpstreamMalformed),
}


@pytest.mark.parametrize(("body", "kind"), IN_STREAM.values(), ids=IN_STREAM)
def test_an_error_under_status_200(
    body: bytes, kind: type[BridgeError], make: Callable[..., Upstream], api: ScriptedGemini
) -> None:
    api.will_say(Reply([body]))
    with pytest.raises(kind) as caught:
        read(make(), REQUEST)
    assert type(caught.value) is kind
    assert "Gemini" not in caught.value.message


def test_an_endless_answer_ends(make: Callable[..., Upstream], api: ScriptedGemini) -> None:
    endless = (b"x" * 65536 for _ in range(2000))
    api.will_say(Reply(endless))
    with pytest.raises(errors.UpstreamMalformed, match="too large"):
        read(make(), REQUEST)


def test_a_silent_server_is_a_timeout(make: Callable[..., Upstream], api: ScriptedGemini) -> None:
    api.will_say(Reply([sse(text("Hi"), done=False), 3, b" "]))
    with pytest.raises(errors.UpstreamTimeout, match="Upstream qwen stopped sending"):
        read(make(read_timeout=0.5), REQUEST)


def test_a_connection_that_stays_open_after_the_end_does_not_delay_the_answer(
    make: Callable[..., Upstream], api: ScriptedGemini
) -> None:
    api.will_say(Reply([sse(text("Hi"), end("stop")), 3]))
    assert joined(read(make(read_timeout=1.0), REQUEST))["finish"] == ["STOP"]


def test_the_key_is_masked(make: Callable[..., Upstream], api: ScriptedGemini) -> None:
    key = "sk-canary-0123456789abcdef"
    api.will_say(
        Reply([sse(text(f"It is {key}."), end("stop"))]),
        Reply([b'{"detail": "bad key ' + key.encode() + b'"}'], 401),
    )
    upstream = make(api_keys=(key,))
    assert joined(read(upstream, REQUEST))["text"] == "It is [key]."
    with pytest.raises(errors.UpstreamMisconfigured) as caught:
        read(upstream, REQUEST)
    assert key not in str(caught.value)
    assert api.asked[0].headers["authorization"] == f"Bearer {key}"
