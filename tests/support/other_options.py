"""Fields of requests that change which events an answer has, beside those of `conversations`."""

from __future__ import annotations

from typing import Any

_TOOLS = [
    {"type": "custom", "name": "note"},
    {"type": "local_shell"},
    {"type": "namespace", "name": "sky", "tools": [{"type": "function", "name": "look"}]},
    {"type": "function", "name": "weigh"},
]
#: By protocol: a name, and the fields.
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "openai_responses": {
        "everything": {
            "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
            "tools": _TOOLS,
        },
        "thoughts alone": {"include": None},
        "nothing": {"include": None, "reasoning": None},
    },
    "openai_chat": {
        "everything": {"n": 2, "logprobs": True},
        "freeform tools": {"tools": [{"type": "custom", "custom": {"name": "note"}}]},
    },
    "openai_completions": {"log probabilities": {"logprobs": 2}},
    "anthropic_messages": {
        "thoughts": {},
        "signatures alone": {"thinking": {"type": "adaptive", "display": "omitted"}},
        "nothing": {"thinking": None},
    },
}
