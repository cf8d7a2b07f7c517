"""The calls by which a server counts the tokens of a request: addresses and bodies, no IO.

Each call follows the one before: it may use its answer. The last answer has the count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bridge.gemini.types import JsonObject

Fields = dict[str, Any]
PROMPT_FIELDS = ("messages", "tools", "chat_template_kwargs")


class CountStep(NamedTuple):
    path: str  #: below the root of the server, which is above `/v1`
    #: From the body of the Chat Completions call, and the answer of the step before, to the body.
    body: Callable[[JsonObject, JsonObject], Fields]


class CountMethod(NamedTuple):
    steps: Sequence[CountStep]
    read: Callable[[JsonObject], Any]  #: the count in the last answer


def _prompt(chat: JsonObject, _before: JsonObject) -> Fields:
    return {name: chat[name] for name in PROMPT_FIELDS if name in chat}


def _messages(chat: JsonObject, before: JsonObject) -> Fields:
    return {"model": chat["model"], **_prompt(chat, before), "add_generation_prompt": True}


def _templated(_chat: JsonObject, before: JsonObject) -> Fields:
    return {"content": before.get("prompt", ""), "add_special": True, "parse_special": True}


def _length_of_tokens(answer: JsonObject) -> Any:
    tokens = answer.get("tokens")
    return len(tokens) if isinstance(tokens, list) else None


#: vLLM: the server makes the prompt itself.
BY_MESSAGES = CountMethod((CountStep("/tokenize", _messages),), lambda answer: answer.get("count"))
#: llama.cpp: one call makes the prompt, and the next one splits it into tokens.
BY_TEMPLATE = CountMethod(
    (CountStep("/apply-template", _prompt), CountStep("/tokenize", _templated)), _length_of_tokens
)

#: Where servers write the size of a model's context window in their lists.
WINDOW_FIELDS = ("max_model_len", "context_length", "max_context_length", "context_window", "n_ctx")


def window_of(model: JsonObject) -> int:
    """The context window of a listed model; 0 if the list does not have it."""
    meta = model.get("meta")
    holders: Sequence[Mapping[str, Any]] = (model, meta if isinstance(meta, dict) else {})
    for holder in holders:
        for name in (*WINDOW_FIELDS, "n_ctx_train"):
            if type(value := holder.get(name)) is int and value > 0:
                return value
    return 0
