"""The other calls of the upstreams `openai` and `ollama`: refusals, token counts, lists, vectors, keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from scripted_chat import choice, counted, end, line, lines, sse, text
from scripted_gemini import Reply, ScriptedGemini
from upstream_rigs import read

from bridge import errors
from bridge.errors import BridgeError
from bridge.gemini.generation import estimated_tokens
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import Content, FunctionDeclaration, GenerateRequest, Part, Tool
from bridge.settings import SettingsError
from bridge.settings.sections import GEMINI_ADDRESS
from bridge.upstream.base import Upstream
from bridge.upstream.openai.dialects import DIALECTS

Make = Callable[..., Upstream]
REQUEST = GenerateRequest("qwen3", (Content("user", (Part("Hello"),)),))
SAID = sse(text("Hi"), end("stop"), counted())


def answer(document: Any, status: int = 200, **headers: str) -> Reply:
    return Reply([document if isinstance(document, bytes) else orjson.dumps(document)], status, headers)


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


REFUSALS: dict[str, tuple[Reply, type[BridgeError], str]] = {
    "OpenAI": (answer(error("no", type="invalid_request_error"), 400), errors.UpstreamRefused, "no"),
    "Ollama": (answer({"error": "model 'x' not found"}, 404), errors.UnknownModel, "model 'x' not found"),
    "an old vLLM": (
        answer({"object": "error", "message": "no", "code": 400}, 400),
        errors.UpstreamRefused,
        "no",
    ),
    "FastAPI": (answer({"detail": [{"msg": "no"}]}, 422), errors.UpstreamRefused, "no"),
    "Google's own": (answer([error("no")], 400), errors.UpstreamRefused, "no"),
    "HTML": (
        answer(b"<html>Bad gateway</html>", 502),
        errors.UpstreamUnreachable,
        "Upstream qwen answered 502",
    ),
    "no body": (answer(b"", 400), errors.UpstreamRefused, "without a reason"),
    "no body and too large": (answer(b"", 413), errors.RequestTooLarge, "Upstream qwen"),
    "a bad key": (
        answer(error("bad key", code="invalid_api_key"), 401),
        errors.UpstreamMisconfigured,
        "bad key",
    ),
    "busy": (answer(error("busy"), 503), errors.UpstreamOverloaded, "busy"),
    "a timeout that sounds like an overflow": (
        answer(error("context deadline exceeded"), 504),
        errors.UpstreamTimeout,
        "context deadline exceeded",
    ),
    "thinking": (
        answer(error("reasoning_effort is not supported"), 400),
        errors.ThinkingRefused,
        "reasoning",
    ),
    "sampling": (answer(error("Unsupported parameter: 'temperature'"), 400), errors.SamplingRefused, "temp"),
}


@pytest.mark.parametrize(("reply", "kind", "says"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal(reply: Reply, kind: type[BridgeError], says: str, make: Make, api: ScriptedGemini) -> None:
    api.will_say(reply)
    with pytest.raises(kind) as caught:
        read(make(), REQUEST)
    assert type(caught.value) is kind
    assert says in caught.value.message
    assert "Gemini" not in caught.value.message


OVERFLOWS: dict[str, tuple[int, dict[str, Any], int | None, int | None]] = {
    "OpenAI": (
        400,
        error(
            "This model's maximum context length is 8192 tokens. "
            "However, your messages resulted in 9000 tokens.",
            code="context_length_exceeded",
        ),
        9000,
        8192,
    ),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 8192 tokens. "
            "However, you requested 9000 tokens (8000 in the messages, 1000 in the completion).",
        },
        9000,
        8192,
    ),
    "llama.cpp": (
        400,
        error(
            "the request exceeds the available context size, try increasing it",
            type="exceed_context_size_error",
            n_prompt_tokens=9000,
            n_ctx=8192,
        ),
        9000,
        8192,
    ),
    "DashScope": (400, error("Range of input length should be [1, 30720]"), None, 30720),
    "Anthropic behind a relay": (400, error("prompt is too long: 9000 tokens > 8192 maximum"), 9000, 8192),
    "only a code": (400, error("no", code="context_length_exceeded"), None, None),
    "another status": (422, error("maximum context length is 8192 tokens"), None, 8192),
}


@pytest.mark.parametrize(("status", "body", "tokens", "limit"), OVERFLOWS.values(), ids=OVERFLOWS)
def test_an_overflow_is_recognised_with_its_numbers(
    status: int, body: Any, tokens: int | None, limit: int | None, make: Make, api: ScriptedGemini
) -> None:
    api.will_say(answer(body, status))
    with pytest.raises(errors.ContextOverflow) as caught:
        read(make(), REQUEST)
    assert (caught.value.tokens, caught.value.limit) == (tokens, limit)


def test_the_delay_before_a_retry_comes_from_the_header(make: Make, api: ScriptedGemini) -> None:
    api.will_say(answer(error("slow down"), 429, **{"Retry-After": "34.5"}))
    with pytest.raises(errors.UpstreamRateLimited) as caught:
        read(make(), REQUEST)
    assert caught.value.retry_after == 34.5


def test_keys_are_used_in_turn_when_one_is_refused(make: Make, api: ScriptedGemini) -> None:
    api.will_say(answer(error("slow down"), 429), Reply([SAID]))
    keys = ("canary-key-number-one", "canary-key-number-two")
    read(make(dialect="azure", base_url=f"{api.address}/openai/v1", api_keys=keys), REQUEST)
    assert [asked.headers.get("api-key") for asked in api.asked] == list(keys)
    assert api.asked[0].path == "/openai/v1/chat/completions"


def test_without_a_key_no_header_is_sent(make: Make, api: ScriptedGemini) -> None:
    api.will_say(Reply([SAID]))
    read(make(), REQUEST)
    assert not {"authorization", "api-key", "x-goog-api-key"} & api.asked[0].headers.keys()


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            {
                "promptTokenCount": 7,
                "candidatesTokenCount": 3,
                "thoughtsTokenCount": 2,
                "cachedContentTokenCount": 4,
                "totalTokenCount": 12,
            },
        ),
        (
            {"prompt_cache_hit_tokens": 5},
            {
                "promptTokenCount": 7,
                "candidatesTokenCount": 5,
                "cachedContentTokenCount": 5,
                "totalTokenCount": 12,
            },
        ),
    ],
)
def test_usage(usage: Any, expected: Any, make: Make, api: ScriptedGemini) -> None:
    api.will_say(Reply([sse(text("Hi"), counted(1, 1), end("stop"), counted(7, 5, **usage))]))
    *_, last = read(make(), REQUEST)
    assert last.usage.raw == expected
    assert not last.usage.estimated


def test_usage_that_the_server_does_not_count_is_estimated_and_marked(
    make: Make, api: ScriptedGemini
) -> None:
    api.will_say(Reply([sse(choice({"reasoning": "abcdef"}), text("abc"), end("stop"))]))
    *_, last = read(make(), REQUEST)
    assert last.usage.estimated
    assert (last.usage.prompt, last.usage.output, last.usage.thoughts) == (1, 3, 2)


def test_log_probabilities(make: Make, api: ScriptedGemini) -> None:
    token = {"token": "Hi", "logprob": -0.5, "top_logprobs": [{"token": "Ho", "logprob": -1.5}]}
    api.will_say(Reply([sse(choice({"content": "Hi"}, logprobs={"content": [token]}), end("stop"))]))
    first, *_ = read(make(), REQUEST)
    assert first.candidates[0].extra["logprobsResult"] == {
        "chosenCandidates": [{"token": "Hi", "logProbability": -0.5}],
        "topCandidates": [{"candidates": [{"token": "Ho", "logProbability": -1.5}]}],
    }


@pytest.mark.parametrize(("kind", "body"), [("openai", SAID), ("ollama", None)])
def test_a_row_can_turn_thinking_off(kind: str, body: bytes | None, make: Make, api: ScriptedGemini) -> None:
    thinking = choice({"reasoning": "Hm."}) if body else line({"thinking": "Hm."})
    last = [line({"content": "Hi"}), line({}, done=True)]
    api.will_say(Reply([sse(thinking, text("Hi"), end("stop")) if body else lines(thinking, *last)]))
    chunks = read(make(kind, think="off", dialect="vllm"), REQUEST)
    sent = api.asked[-1].body
    assert sent.get("think", sent.get("chat_template_kwargs")) in (
        False,
        {"enable_thinking": False, "thinking": False},
    )
    assert not [part for chunk in chunks for each in chunk.candidates for part in each.parts if part.thought]


# --- token counts, lists, vectors --------------------------------------------------------------------

TOOL = Tool((FunctionDeclaration("look", "Look."),))
LONG = GenerateRequest("qwen3", REQUEST.contents, Content(None, (Part("Be brief."),)), (TOOL,))


def test_vllm_counts_with_instruction_and_tools(make: Make, api: ScriptedGemini) -> None:
    api.will_say(answer({"count": 31, "max_model_len": 8192}))
    assert make(dialect="vllm").count_tokens(LONG) == 31
    asked = api.asked[-1]
    assert asked.path == "/tokenize"
    assert [message["role"] for message in asked.body["messages"]] == ["system", "user"]
    assert asked.body["tools"][0]["function"]["name"] == "look"


def test_llamacpp_counts_the_prompt_that_it_makes(make: Make, api: ScriptedGemini) -> None:
    api.will_say(answer({"prompt": "<s>Hello"}), answer({"tokens": [1, 2, 3]}))
    assert make(dialect="llamacpp").count_tokens(LONG) == 3
    assert [asked.path for asked in api.asked] == ["/apply-template", "/tokenize"]
    assert api.asked[1].body["content"] == "<s>Hello"


def test_a_count_without_a_number_is_malformed(make: Make, api: ScriptedGemini) -> None:
    api.will_say(answer({"tokens": 3}))
    with pytest.raises(errors.UpstreamMalformed):
        make(dialect="vllm").count_tokens(LONG)


@pytest.mark.parametrize(
    ("kind", "dialect"), [("openai", "deepseek"), ("openai", "openai"), ("ollama", "openai")]
)
def test_other_servers_cannot_count_so_the_count_is_an_estimate(kind: str, dialect: str, make: Make) -> None:
    upstream = make(kind, dialect=dialect)
    assert upstream.count_tokens(LONG) == estimated_tokens(LONG)
    assert upstream.estimates_counts


def test_the_list_of_models_with_their_windows(make: Make, api: ScriptedGemini) -> None:
    listed = [
        {"id": "a", "max_model_len": 1000},
        {"id": "Qwen/b", "meta": {"n_ctx_train": 2000}},
        {"id": "c", "context_length": 3000},
        {"id": "d"},
        {"name": "no id"},
        "nonsense",
    ]
    api.will_list({"object": "list", "data": listed})
    found = {model["name"]: model.get("inputTokenLimit") for model in make().models()}
    assert found == {"models/a": 1000, "models/Qwen/b": 2000, "models/c": 3000, "models/d": None}
    assert api.listings[-1].path == "/v1/models"


def test_the_row_can_list_the_models(make: Make) -> None:
    assert [model["name"] for model in make(listed=("a", "b")).models()] == ["models/a", "models/b"]


def vectors(*values: list[float]) -> list[dict[str, Any]]:
    return [{"index": index, "embedding": each} for index, each in reversed(list(enumerate(values)))]


def test_vectors(make: Make, api: ScriptedGemini) -> None:
    one = {"content": {"parts": [{"text": "a"}]}, "outputDimensionality": 2}
    api.will_say(
        answer({"data": vectors([0.5, 1]), "usage": {"prompt_tokens": 3}}),
        answer({"data": vectors([0.5], [1.5])}),
    )
    upstream = make()
    said = upstream.unary_call("models/bge", "embedContent", one)
    assert said == {"embedding": {"values": [0.5, 1]}, "usageMetadata": {"promptTokenCount": 3}}
    assert api.asked[-1].body == {"model": "bge", "input": ["a"], "dimensions": 2}
    batch = {"requests": [{"content": {"parts": [{"text": each}]}} for each in "ab"]}
    assert upstream.unary_call("bge", "batchEmbedContents", batch) == {
        "embeddings": [{"values": [0.5]}, {"values": [1.5]}]
    }
    with pytest.raises(errors.UnknownModel):
        upstream.unary_call("bge", "predict", {})
    with pytest.raises(errors.InvalidRequest):
        upstream.unary_call("bge", "embedContent", {"content": {"parts": [{"inlineData": {}}]}})


def test_vectors_that_are_missing_are_malformed(make: Make, api: ScriptedGemini) -> None:
    api.will_say(answer({"data": []}))
    with pytest.raises(errors.UpstreamMalformed):
        make().unary_call("bge", "embedContent", {"content": {"parts": [{"text": "a"}]}})


def test_credentials_are_checked_by_the_list(make: Make, api: ScriptedGemini) -> None:
    api.will_list(answer(error("bad key"), 401))
    with pytest.raises(errors.UpstreamMisconfigured):
        make().check_credentials("qwen3")


# --- Ollama ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "window"),
    [
        ({"parameters": "num_ctx                        12345\nstop  x", "model_info": {}}, 12345),
        ({"model_info": {"qwen3.context_length": 8192}}, 8192),
        ({"model_info": {"qwen3.context_length": 262144}}, 32768),
        ({}, 32768),
    ],
)
def test_ollama_gets_a_window_with_each_request(
    shown: Any, window: int, make: Make, api: ScriptedGemini
) -> None:
    api.will_show(shown)
    api.will_say(*[Reply([lines(line({"content": "Hi"}), line({}, done=True))])] * 2)
    upstream = make("ollama")
    read(upstream, REQUEST)
    read(upstream, REQUEST)
    assert [asked.path for asked in api.asked] == ["/api/chat", "/api/chat"]
    assert [asked.body for asked in api.listings] == [{"model": "qwen3"}]
    assert api.asked[-1].body["options"]["num_ctx"] == window
    assert "think" not in api.asked[-1].body


def test_a_prompt_that_ollama_would_cut_is_refused(make: Make, api: ScriptedGemini) -> None:
    api.will_show({"model_info": {"qwen3.context_length": 100}})
    long = GenerateRequest("qwen3", (Content("user", (Part("x" * 400),)),))
    with pytest.raises(errors.ContextOverflow) as caught:
        make("ollama").stream(long)
    assert (caught.value.tokens, caught.value.limit) == (133, 100)
    assert not api.asked


def test_a_model_that_ollama_lacks_is_unknown(make: Make, api: ScriptedGemini) -> None:
    api.will_show(answer({"error": "model 'qwen3' not found"}, 404))
    with pytest.raises(errors.UnknownModel):
        make("ollama").stream(REQUEST)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (lines({"error": "an error was encountered while running the model"}), errors.UpstreamUnreachable),
        (lines(line({"content": "Hi"})), errors.UpstreamTruncated),
        (lines(line({}, done=True, done_reason="load")), errors.UpstreamMalformed),
        (b"<html>\n</html>\n", errors.UpstreamMalformed),
        (b"", errors.UpstreamTruncated),
        (b'{"message": {"cont', errors.UpstreamTruncated),
    ],
)
def test_bad_answers_of_ollama(body: bytes, kind: type[BridgeError], make: Make, api: ScriptedGemini) -> None:
    api.will_say(Reply([body]))
    with pytest.raises(kind) as caught:
        read(make("ollama"), REQUEST)
    assert "Gemini" not in caught.value.message


def test_ollamas_models_and_vectors(make: Make, api: ScriptedGemini) -> None:
    api.will_list({"models": [{"name": "qwen3:8b"}, {"no": "name"}]})
    api.will_show({"model_info": {"qwen3.context_length": 8192}})
    api.will_say(answer({"embeddings": [[0.5]], "prompt_eval_count": 2}))
    upstream = make("ollama")
    (model,) = upstream.models()
    assert (model["name"], model["inputTokenLimit"]) == ("models/qwen3:8b", 8192)
    assert api.listings[0].path == "/api/tags"
    said = upstream.unary_call("bge", "embedContent", {"content": {"parts": [{"text": "a"}]}})
    assert said == {"embedding": {"values": [0.5]}, "usageMetadata": {"promptTokenCount": 2}}


# --- settings and capabilities -----------------------------------------------------------------------


def test_an_unknown_dialect_and_a_missing_address_are_refused_at_the_start(make: Make) -> None:
    with pytest.raises(SettingsError, match="vllm"):
        make(dialect="vlm")
    with pytest.raises(SettingsError, match="base_url"):
        make(dialect="azure", base_url="")


def test_without_an_address_the_usual_one_of_the_kind_applies(make: Make) -> None:
    for address in ("", GEMINI_ADDRESS):
        assert make(dialect="deepseek", base_url=address).home == "https://api.deepseek.com"
        assert make("ollama", base_url=address).home == "http://127.0.0.1:11434"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_answers(dialect: str, make: Make, api: ScriptedGemini) -> None:
    api.will_say(Reply([SAID]))
    assert read(make(dialect=dialect), REQUEST)[-1].candidates[0].finish_reason == "STOP"


@pytest.mark.parametrize("kind", ["openai", "ollama"])
def test_models_of_such_servers_need_no_signatures_and_may_stop_thinking(kind: str, make: Make) -> None:
    found = make(kind).completed(ModelCapabilities(thinking_levels=("low",), needs_signatures=True, window=9))
    assert not found.needs_signatures
    assert found.thinking_can_be_off
    assert found.thinking_levels == ()
    assert found.window == 9


def test_a_large_call_takes_linear_time(make: Make, api: ScriptedGemini) -> None:
    def seconds(size: int) -> float:
        function = {"name": "look", "arguments": '{"a":"'}
        first = choice({"tool_calls": [{"index": 0, "id": "a", "function": function}]})
        more = choice({"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": "x" * 8}}]})
        last = choice({"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]})
        api.will_say(Reply([sse(first, *[more] * size, last, end())]))
        began = time.process_time()
        read(make(), REQUEST)
        return time.process_time() - began

    seconds(100)
    assert seconds(16_000) < 8 * max(seconds(4_000), 0.02)
