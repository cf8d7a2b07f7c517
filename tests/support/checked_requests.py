"""Requests whose answers are checked against the vendors' documents: each protocol's features, once each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import requests
from checked_answers import Answer, Asked, error_kind

from bridge.protocols.openai_responses.dialects import DIALECTS
from bridge.upstream.demo.faults import FAULTS

PROMPT = "Think step by step: what is the weather?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "The weather of a city.", "parameters": CITY}
ANSWER = {"type": "object", "properties": {"sky": {"type": "string"}}, "required": ["sky"]}

CHAT: Mapping[str, Any] = {
    "messages": [{"role": "user", "content": PROMPT}],
    "tools": [{"type": "function", "function": FUNCTION}],
    "stream_options": {"include_usage": True},
}
COMPLETIONS: Mapping[str, Any] = {"prompt": PROMPT, "stream_options": {"include_usage": True}}
RESPONSES: Mapping[str, Any] = {
    "input": PROMPT,
    "tools": [{"type": "function", **FUNCTION}],
    "reasoning": {"summary": "auto"},
    "include": ["reasoning.encrypted_content"],
}
MESSAGES: Mapping[str, Any] = {
    "max_tokens": 4096,
    "messages": [{"role": "user", "content": PROMPT}],
    "tools": [{"name": "get_weather", "input_schema": CITY}],
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}
NATIVE: Mapping[str, Any] = {
    "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
    "tools": [{"functionDeclarations": [FUNCTION]}],
    "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
}
INTERACTIONS: Mapping[str, Any] = {
    "input": PROMPT,
    "tools": [{"type": "function", **FUNCTION}],
    "generation_config": {"thinking_summaries": "auto"},
}

#: Every demo model gets these.
ORDINARY = (
    Asked("chat", CHAT),
    Asked("completions", COMPLETIONS),
    *(Asked("responses", RESPONSES, dialect) for dialect in DIALECTS),
    Asked("messages", MESSAGES),
    Asked("native", NATIVE),
    Asked("interactions", INTERACTIONS),
)

_FREEFORM = {"type": "custom", "name": "note", "description": "Takes a note."}
#: These go to one demo model each: what a request asks for is repeated or shown in its answer.
FEATURES: Mapping[str, tuple[str, Asked]] = {
    "chat plain": ("demo", Asked("chat", {"messages": CHAT["messages"]})),
    "chat choices": ("demo", Asked("chat", {**CHAT, "n": 2})),
    "chat logprobs": (
        "demo",
        Asked("chat", {"messages": CHAT["messages"], "logprobs": True, "top_logprobs": 2}),
    ),
    "completions plain": ("demo", Asked("completions", {"prompt": PROMPT})),
    "completions suffix": ("demo", Asked("completions", {**COMPLETIONS, "suffix": "\n"})),
    "completions choices": ("demo", Asked("completions", {**COMPLETIONS, "n": 2, "echo": True})),
    "completions logprobs": ("demo", Asked("completions", {**COMPLETIONS, "logprobs": 2})),
    "chat search": (
        "demo-grounding",
        Asked("chat", {"messages": CHAT["messages"], "web_search_options": {}}),
    ),
    "chat tier": ("demo", Asked("chat", {**CHAT, "service_tier": "flex"})),
    "chat functions": ("demo-tool", Asked("chat", {"messages": CHAT["messages"], "functions": [FUNCTION]})),
    "chat freeform": (
        "demo-tool",
        Asked(
            "chat",
            {"messages": CHAT["messages"], "tools": [{"type": "custom", "custom": {"name": "note"}}]},
        ),
    ),
    "responses plain": ("demo", Asked("responses", {"input": PROMPT}, "openai")),
    "responses settings": (
        "demo",
        Asked(
            "responses",
            {
                "input": [{"role": "user", "content": [{"type": "input_text", "text": PROMPT}]}],
                "instructions": "Be brief.",
                "metadata": {"ticket": "1"},
                "temperature": 0.5,
                "top_p": 0.9,
                "max_output_tokens": 2048,
                "max_tool_calls": 3,
                "top_logprobs": 2,
                "parallel_tool_calls": False,
                "truncation": "auto",
                "service_tier": "flex",
                "safety_identifier": "user-1",
                "prompt_cache_key": "key-1",
                "prompt_cache_retention": "24h",
                "user": "somebody",
                "store": False,
                "text": {"verbosity": "low"},
            },
            "openai",
        ),
    ),
    "responses JSON": (
        "demo",
        Asked(
            "responses",
            {"input": PROMPT, "text": {"format": {"type": "json_schema", "name": "sky", "schema": ANSWER}}},
            "openai",
        ),
    ),
    "responses effort": (
        "demo",
        Asked("responses", {"input": PROMPT, "reasoning": {"effort": "low"}}, "openai"),
    ),
    "responses strict tool": (
        "demo-tool",
        Asked(
            "responses",
            {
                "input": PROMPT,
                "tools": [{"type": "function", **FUNCTION, "strict": True}],
                "tool_choice": "required",
            },
            "openai",
        ),
    ),
    "responses freeform": (
        "demo-tool",
        Asked("responses", {"input": PROMPT, "tools": [_FREEFORM]}, "openai"),
    ),
    "responses shell": (
        "demo-tool",
        Asked("responses", {"input": PROMPT, "tools": [{"type": "local_shell"}]}, "openai"),
    ),
    "responses tool search": (
        "demo-tool",
        Asked("responses", {"input": PROMPT, "tools": [{"type": "tool_search"}]}, "openai"),
    ),
    "responses namespace": (
        "demo-tool",
        Asked(
            "responses",
            {
                "input": PROMPT,
                "tools": [
                    {
                        "type": "namespace",
                        "name": "sky",
                        "description": "About the sky.",
                        "tools": [{"type": "function", **FUNCTION}],
                    }
                ],
            },
            "openai",
        ),
    ),
    "responses search": (
        "demo-grounding",
        Asked("responses", {"input": PROMPT, "tools": [{"type": "web_search"}]}, "openai"),
    ),
    "messages plain": ("demo", Asked("messages", {"max_tokens": 100, "messages": MESSAGES["messages"]})),
    "messages adaptive": ("demo-parallel", Asked("messages", {**MESSAGES, "thinking": {"type": "adaptive"}})),
    "messages search": (
        "demo-grounding",
        Asked(
            "messages",
            {
                "max_tokens": 100,
                "messages": MESSAGES["messages"],
                "tools": [{"type": "web_search_20250305", "name": "web_search"}],
            },
        ),
    ),
    "native plain": ("demo", Asked("native", {"contents": NATIVE["contents"]})),
    "native search": (
        "demo-grounding",
        Asked("native", {"contents": NATIVE["contents"], "tools": [{"googleSearch": {}}]}),
    ),
    "interactions plain": ("demo", Asked("interactions", {"input": PROMPT})),
    "interactions search": (
        "demo-grounding",
        Asked("interactions", {"input": PROMPT, "tools": [{"type": "google_search"}]}),
    ),
    "interactions tier": ("demo", Asked("interactions", {"input": PROMPT, "service_tier": "flex"})),
    "messages tier": ("demo", Asked("messages", {**MESSAGES, "service_tier": "auto"})),
}


def of_demo_models(address: str) -> Iterator[Answer]:
    for name in ("demo", *(f"demo-{fault}" for fault in FAULTS)):
        for asked in ORDINARY:
            for stream in (True, False):
                yield from asked.answers(address, name, stream=stream, source=name)


def of_features(address: str) -> Iterator[Answer]:
    for name, (model, asked) in FEATURES.items():
        for stream in (True, False):
            yield from asked.answers(address, model, stream=stream, source=f"request {name!r}")


# --- what is not an answer of a model ----------------------------------------------------------------


def of_other_paths(address: str) -> Iterator[Answer]:
    anthropic = {"anthropic-version": "2023-06-01"}
    models = requests.get(f"{address}/v1/models", timeout=60).json()
    yield Answer("GET /v1/models", "", "openai models", models)
    yield Answer("GET /v1/models/demo", "", "openai model", _got(f"{address}/v1/models/demo"))
    listed = _got(f"{address}/v1/models", headers=anthropic)
    yield from (Answer("GET /v1/models", "", "messages model", model) for model in listed["data"])
    counted = requests.post(
        f"{address}/v1/messages/count_tokens",
        json={"model": "demo", "messages": MESSAGES["messages"]},
        timeout=60,
    )
    yield Answer("count_tokens", "", "messages count", counted.json())
    yield from _of_mistakes(address)


def _of_mistakes(address: str) -> Iterator[Answer]:
    for asked in ORDINARY:
        broken = Asked(asked.prefix, {}, asked.dialect)
        yield from broken.answers(address, "demo", stream=False, source="empty request")
    for prefix, path in (
        ("responses", "/v1/responses/resp_unknown"),
        ("chat", "/v1/nothing"),
        ("chat", "/v1/models/no"),
    ):
        yield Answer(f"GET {path}", "", error_kind(prefix), _got(f"{address}{path}"))
    unknown = {"model": "demo", "input": "Hi", "previous_response_id": "resp_unknown"}
    refused = requests.post(f"{address}/v1/responses", json=unknown, timeout=60).json()
    yield Answer("previous_response_id", "", "openai error", refused)


def _got(url: str, headers: Mapping[str, str] | None = None) -> Any:
    return requests.get(url, headers=headers, timeout=60).json()
