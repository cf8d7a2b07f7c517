"""The declared capabilities of each upstream, verified by probes, and their table in docs/UPSTREAMS.md."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from gunicorn_bridge import ROOT
from scripted_gemini import Reply, text_chunk
from upstream_rigs import KEYS, OTHERS, WIRE, Rig, read

from bridge import errors
from bridge.exchange.media_by_url import MediaByUrl
from bridge.gemini.types import (
    GOOGLE_SEARCH,
    Candidate,
    Content,
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    Part,
    Tool,
)
from bridge.gemini.wire import request_to_json
from bridge.observe.record import Record
from bridge.upstream import UPSTREAMS
from bridge.upstream.capabilities import Capability

MODEL = "gemma-3-27b-it"  # a model that needs no signatures, which one upstream cannot carry
HELLO = Content("user", (Part("Hello"),))
PLAIN_TOOL = Tool((FunctionDeclaration("look", "Look around."),))
DONE = text_chunk("Done.", "STOP")
RESULT = FunctionResponse("look", {"a": "b"})

REFUSALS = (errors.InvalidRequest, errors.UnknownModel, errors.UpstreamRateLimited)

Probe = Callable[[Rig], bool]
PROBES: dict[Capability, Probe] = {}


def probe(ability: Capability) -> Callable[[Probe], Probe]:
    def noted(function: Probe) -> Probe:
        PROBES[ability] = function
        return function

    return noted


def request(*contents: Content, **fields: Any) -> GenerateRequest:
    return GenerateRequest(MODEL, contents or (HELLO,), **fields)


def arrives(rig: Rig, asked: GenerateRequest) -> bool:
    """Whether the request reaches Gemini unchanged."""
    rig.will_say(DONE)
    read(rig.upstream, asked)
    return rig.body == request_to_json(asked)


def received(rig: Rig, *chunks: dict[str, Any]) -> list[Candidate]:
    rig.will_say(*chunks)
    return [candidate for chunk in read(rig.upstream, request()) for candidate in chunk.candidates]


def saying(part: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0, **fields}]}


def calling(**fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "look", **fields}}


def after_a_call(call: Part, result: FunctionResponse = RESULT) -> GenerateRequest:
    return request(HELLO, Content("model", (call,)), Content("user", (Part(result),)), tools=(PLAIN_TOOL,))


@probe(Capability.THOUGHTS)
def thoughts(rig: Rig) -> bool:
    first, *_ = received(rig, saying({"text": "Hm.", "thought": True}), DONE)
    return first.parts[0].thought


@probe(Capability.SIGNATURES)
def signatures(rig: Rig) -> bool:
    first, *_ = received(rig, saying({**calling(args={}), "thoughtSignature": "c2lnbmVk"}), DONE)
    signed = Part(FunctionCall("look", {"n": 1}), signature="c2lnbmVk")
    return first.parts[0].signature == "c2lnbmVk" and arrives(rig, after_a_call(signed))


@probe(Capability.THINKING)
def thinking(rig: Rig) -> bool:
    return arrives(rig, request(generation={"thinkingConfig": {"thinkingBudget": 512}}))


@probe(Capability.SCHEMA_TOOLS)
def schema_tools(rig: Rig) -> bool:
    schema = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
    return arrives(rig, request(tools=(Tool((FunctionDeclaration("look", "Look.", schema),)),)))


@probe(Capability.SCHEMA_ANSWERS)
def schema_answers(rig: Rig) -> bool:
    wanted = {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}
    return arrives(rig, request(generation=wanted))


@probe(Capability.SEED)
def seed(rig: Rig) -> bool:
    return arrives(rig, request(generation={"seed": 7}))


@probe(Capability.SEARCH)
def search(rig: Rig) -> bool:
    sources = {
        "webSearchQueries": ["news"],
        "groundingChunks": [{"web": {"uri": "https://a.test", "title": "A"}}],
    }
    first, *_ = received(rig, saying({"text": "So."}, groundingMetadata=sources, finishReason="STOP"))
    return first.extra.get("groundingMetadata") == sources and arrives(rig, request(tools=(GOOGLE_SEARCH,)))


@probe(Capability.RESULT_MEDIA)
def result_media(rig: Rig) -> bool:
    picture = FunctionResponse("look", {"a": "b"}, media=(InlineData("image/png", "aGk="),))
    return arrives(rig, after_a_call(Part(FunctionCall("look", {})), picture))


@probe(Capability.MEDIA_ADDRESSES)
def media_addresses(rig: Rig) -> bool:
    picture = Part(FileData("https://example.com/cat.png", "image/png", param="input"))
    asked = request(Content("user", (picture,)))
    allowed = MediaByUrl(None).fetched(asked, [rig.upstream], lambda _size: None, Record("r", "POST", "/"))
    return allowed == asked and arrives(rig, asked)


@probe(Capability.CALL_IDS)
def call_ids(rig: Rig) -> bool:
    first, *_ = received(rig, saying(calling(id="c1", args={"a": "b"})), DONE)
    told = after_a_call(
        Part(FunctionCall("look", {"a": "b"}, "c1")), FunctionResponse("look", {"a": "b"}, "c1")
    )
    return first.parts[0].data == FunctionCall("look", {"a": "b"}, "c1") and arrives(rig, told)


@probe(Capability.WHOLE_NUMBERS)
def whole_numbers(rig: Rig) -> bool:
    first, *_ = received(rig, saying(calling(args={"small": 3, "large": 2**53 + 1})), DONE)
    call = first.parts[0].data
    assert isinstance(call, FunctionCall)
    assert call.args is not None
    assert type(call.args["small"]) is int, "strict clients take no 3.0 for a 3"
    return bool(call.args["large"] == 2**53 + 1)


@probe(Capability.NEW_FIELDS)
def new_fields(rig: Rig) -> bool:
    first, *_ = received(rig, saying({"text": "So.", "mood": "good"}), DONE)
    novel = request(Content("user", (Part("Hello", extra={"mood": "good"}),)), extra={"tier": "flex"})
    return first.parts[0].extra == {"mood": "good"} and arrives(rig, novel)


@probe(Capability.FINISH_REASONS)
def finish_reasons(rig: Rig) -> bool:
    first, *_ = received(rig, saying({"text": "So."}, finishReason="TOO_MANY_TOOL_CALLS"))
    return first.finish_reason == "TOO_MANY_TOOL_CALLS"


@probe(Capability.USAGE_DETAILS)
def usage_details(rig: Rig) -> bool:
    details = [{"modality": "TEXT", "tokenCount": 9}]
    usage = {"promptTokenCount": 9, "thoughtsTokenCount": 4, "promptTokensDetails": details}
    rig.will_say({**DONE, "usageMetadata": usage})
    *_, last = read(rig.upstream, request())
    return bool(last.usage.raw == usage)


@probe(Capability.STREAM_ERRORS)
def stream_errors(rig: Rig) -> bool:
    rig.will_say(text_chunk("So"), {"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}})
    try:
        read(rig.upstream, request())
    except errors.UpstreamOverloaded:
        return True
    return False


def refusal(code: int, status: str, **more: Any) -> Reply:
    body = {"error": {"code": code, "status": status, "message": "no", **more}}
    return Reply([orjson.dumps(body)], code, {"Content-Type": "application/json; charset=UTF-8"})


@probe(Capability.RETRY_DELAYS)
def retry_delays(rig: Rig) -> bool:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    refused = refusal(429, "RESOURCE_EXHAUSTED", details=[info])
    if rig.name in OTHERS:
        refused.headers["Retry-After"] = "34.5"
    rig.api.will_say(*[refused] * len(KEYS))
    with pytest.raises(errors.UpstreamRateLimited) as caught:
        read(rig.upstream, request())
    return caught.value.retry_after == 34.5


@probe(Capability.COUNTS)
def counts(rig: Rig) -> bool:
    rig.api.will_say(Reply([b'{"totalTokens": 31}']))
    asked = request(system=Content(None, (Part("Be brief."),)), tools=(PLAIN_TOOL,))
    if rig.upstream.count_tokens(asked) != 31:
        return False
    body = rig.api.asked[-1].body
    counted = body.get("generateContentRequest") or body.get("request") or body
    return {name: value for name, value in counted.items() if name != "model"} == request_to_json(asked)


SAID = {"embedding": {"values": [0.5, -0.25]}}
EMBEDDED = {"openai": {"data": [{"embedding": [0.5, -0.25]}]}, "ollama": {"embeddings": [[0.5, -0.25]]}}


@probe(Capability.EMBEDDINGS)
def embeddings(rig: Rig) -> bool:
    rig.api.will_say(Reply([orjson.dumps(EMBEDDED.get(rig.name, SAID))]))
    body = {"model": f"models/{MODEL}", "content": {"parts": [{"text": "Hello"}]}, "outputDimensionality": 2}
    said = rig.upstream.unary_call(MODEL, "embedContent", body)
    asked = rig.api.asked[-1]
    if rig.name in OTHERS:
        assert asked.body == {"model": MODEL, "input": ["Hello"], "dimensions": 2}
    else:
        assert asked.path.startswith(f"/v1beta/models/{MODEL}:embedContent")
        assert asked.body["content"] == body["content"]
    return said == SAID


LISTED: dict[str, Any] = {
    "vertex": {"publisherModels": [{"name": "publishers/google/models/gemini-3.8-flash"}]},
    "openai": {"data": [{"id": "gemini-3.8-flash", "max_model_len": 32768}]},
    "ollama": {"models": [{"name": "gemini-3.8-flash"}]},
}


@probe(Capability.MODEL_LIMITS)
def model_limits(rig: Rig) -> bool:
    quota = {"buckets": [{"modelId": "gemini-3.8-flash"}]}
    rig.api.will_say(Reply([orjson.dumps(quota)]))
    if rig.name in LISTED:
        rig.api.will_list(LISTED[rig.name])
    first, *_ = rig.upstream.models()
    assert first["name"] == "models/gemini-3.8-flash"
    return "inputTokenLimit" in first


@probe(Capability.KEY_ROTATION)
def key_rotation(rig: Rig) -> bool:
    rig.api.will_say(refusal(429, "RESOURCE_EXHAUSTED"))
    rig.will_say(DONE)
    read(rig.upstream, request())
    header = "authorization" if rig.name in OTHERS else "x-goog-api-key"
    sent = [asked.headers.get(header, "").removeprefix("Bearer ") for asked in rig.api.asked]
    return sorted(sent) == sorted(KEYS)


@probe(Capability.NO_STORAGE)
def no_storage(rig: Rig) -> bool:
    return arrives(rig, request(store=False))


@probe(Capability.CANCELLATION)
def cancellation(rig: Rig) -> bool:
    left = threading.Event()

    def endless() -> Iterator[Any]:
        try:
            yield from rig.wrapped([text_chunk("So"), DONE]).body[:1]  # type: ignore[index]
            for _ in range(1000):
                yield 0.05
                yield b" "
        finally:
            left.set()

    rig.api.will_say(Reply(endless(), headers=rig.wrapped([]).headers))
    stream = rig.upstream.stream(request())
    assert any(iter(stream))
    stream.close()
    return left.wait(20)


def supports(rig: Rig, ability: Capability) -> bool:
    try:
        return PROBES[ability](rig)
    except REFUSALS:
        return False


def test_every_capability_has_a_probe() -> None:
    assert set(PROBES) == set(Capability)


def test_every_upstream_except_the_demo_is_probed() -> None:
    assert set(WIRE) == set(UPSTREAMS) - {"demo"}


@pytest.mark.parametrize("name", WIRE)
@pytest.mark.parametrize("ability", Capability, ids=lambda ability: ability.name)
def test_an_upstream_supports_all_fields_that_it_does_not_list_as_unsupported(
    set_up: Callable[..., Rig], name: str, ability: Capability
) -> None:
    assert supports(set_up(name), ability) == (ability not in UPSTREAMS[name].CANNOT)


def test_the_documentation_lists_the_declared_capabilities() -> None:
    place = ROOT / "docs" / "upstreams.py"
    spec = importlib.util.spec_from_file_location("upstreams_page", place)
    assert spec is not None
    assert spec.loader is not None
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    assert pages.PAGE.read_text("utf-8") == pages.page(), "run: make diagrams"
