"""Completions at the cursor: the requests that editors build, sent by the OpenAI SDK.

Continue's was recorded from its own code: `@continuedev/core` 1.1.0, `@continuedev/openai-adapters` 1.37.0.
The others are written from the source of the editors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import openai
import pytest
import requests
from openai import OpenAI
from scripted_gemini import sse, text_chunk

MODEL = "gemini-3.5-flash-lite"
BEFORE, AFTER = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"
QWEN = f"<|fim_prefix|>{BEFORE}<|fim_suffix|>{AFTER}<|fim_middle|>"
QWEN_MARKS = ["<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"]
OTHER_MARKS = [
    "<fim_prefix>",
    "<fim_middle>",
    "<fim_suffix>",
    "<PRE>",
    "<SUF>",
    "<MID>",
    "[PREFIX]",
    "[SUFFIX]",
]


class Editor(NamedTuple):
    body: dict[str, Any]
    stop: list[str]  #: what Gemini gets of its stop sequences
    before: str = ""  #: what stands before the document in the prompt


EDITORS = {
    "minuet-ai": Editor(
        {
            "prompt": BEFORE,
            "suffix": AFTER,
            "stream": True,
            "max_tokens": 256,
            "top_p": 0.9,
            "stop": ["\n\n"],
        },
        ["\n\n"],
    ),
    "minuet-ai with a template": Editor({"prompt": QWEN, "stream": True, "max_tokens": 56, "top_p": 0.9}, []),
    "Zed": Editor(
        {
            "prompt": QWEN,
            "max_tokens": 256,
            "stop": ["<|endoftext|>", "<|file_separator|>", "<|fim_pad|>", *QWEN_MARKS[:3], *OTHER_MARKS],
        },
        ["<|endoftext|>", "<|file_separator|>", "<|fim_pad|>", *QWEN_MARKS[:2]],
    ),
    "Zed with StarCoder's marks": Editor(
        {"prompt": f"<fim_prefix>{BEFORE}<fim_suffix>{AFTER}<fim_middle>", "max_tokens": 64}, []
    ),
    "Zed with DeepSeek's marks": Editor(
        {"prompt": f"<｜fim▁begin｜>{BEFORE}<｜fim▁hole｜>{AFTER}<｜fim▁end｜>", "max_tokens": 64}, []
    ),
    "Continue": Editor(
        {
            "max_tokens": 4096,
            "temperature": 0.01,
            "stream": True,
            "stop": [
                "<|endoftext|>",
                *QWEN_MARKS,
                *("<|repo_name|>", "<|file_sep|>", "<|im_start|>", "<|im_end|>"),
                *("/src/", "#- coding: utf-8", "```"),
            ],
            "prompt": QWEN,
        },
        ["<|endoftext|>", *QWEN_MARKS],
    ),
    "Continue's adapter": Editor({"prompt": BEFORE, "suffix": AFTER, "stream": True}, []),
    "llama.vscode": Editor(
        {
            "prompt": f"Context:\n\n# sums.py\n{QWEN}",
            "max_tokens": 128,
            "temperature": 0.1,
            "top_p": 0.99,
            "stream": False,
        },
        [],
        "Context:\n\n# sums.py\n",
    ),
}
EACH = pytest.mark.parametrize("name", EDITORS)


@pytest.fixture
def client(bridge):
    with OpenAI(base_url=f"{bridge.address}/v1", api_key="client-key", max_retries=0) as sdk:
        yield sdk


def shown(client: OpenAI, body: dict[str, Any]) -> str:
    """The text that the editor inserts."""
    made = client.completions.create(model=MODEL, **body)
    chunks = list(made) if body.get("stream") else [made]
    return "".join(choice.text for chunk in chunks for choice in chunk.choices)


@EACH
def test_the_editor_gets_the_text_at_its_cursor(client, gemini, name):
    gemini.will_say(sse(text_chunk("```python\na +"), text_chunk(" b\n```", "STOP")))
    editor = EDITORS[name]
    assert shown(client, editor.body) == "a + b"
    asked = gemini.asked[-1].body
    assert asked["contents"] == [
        {"role": "user", "parts": [{"text": f"{editor.before}{BEFORE}<|cursor|>{AFTER}"}]}
    ]
    generation = asked["generationConfig"]
    assert generation.get("stopSequences", []) == editor.stop
    assert generation.get("maxOutputTokens") == editor.body.get("max_tokens")
    assert generation["thinkingConfig"] == {"includeThoughts": False, "thinkingLevel": "MINIMAL"}


@EACH
def test_stop_sequences_that_gemini_does_not_take_are_named(client, gemini, name):
    body = EDITORS[name].body
    answer = client.completions.with_raw_response.create(model=MODEL, **body)
    dropped = len(body.get("stop", [])) > len(EDITORS[name].stop)
    assert answer.headers.get("x-bridge-losses") == ("completions.stop" if dropped else None)


def test_continue_sends_its_key_in_two_headers(bridge, gemini):
    headers = {"Authorization": "Bearer any", "api-key": "any"}
    body = {"model": MODEL, **EDITORS["Continue"].body}
    answer = requests.post(f"{bridge.address}/v1/completions", json=body, headers=headers, timeout=30)
    assert answer.status_code == 200
    assert gemini.asked[-1].headers["x-goog-api-key"] != "any"


def test_addresses_of_other_vendors_are_a_404_that_names_them(client):
    """Mistral's and DeepSeek's address for Continue's `streamFim`, and llama.cpp's."""
    for path in ("/fim/completions", "/infill"):
        with pytest.raises(openai.NotFoundError, match=f"/v1{path}"):
            client.post(path, body={"model": MODEL, "prompt": BEFORE, "suffix": AFTER}, cast_to=object)
