"""Events whose values have any type: the reader gives chunks or a BridgeError, and never fails otherwise."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import orjson
import pytest
from scripted_chat import LOOK, choice, counted, line, piece

from bridge.errors import BridgeError
from bridge.upstream.masking import Mask
from bridge.upstream.ollama.answer import translator
from bridge.upstream.openai.answer import AskedFor, ChatAnswer
from bridge.upstream.openai.errors import error_from_body, error_in
from bridge.upstream.openai.reader import ChatReader

SERVER = "Upstream qwen"
ASKED = AskedFor(frozenset((LOOK,)), True, 1, 4, SERVER)
ODD: list[Any] = [None, True, 0, -1, 1.5, 2**62, "", "x", "9" * 400, [], ["a"], [{}], {}, {"a": []}]
EVENTS = [
    choice(
        {"content": "a", "reasoning": "b", "tool_calls": [piece(LOOK, '{"a":1}', index=0, id="i")]},
        "stop",
        logprobs={"content": [{"token": "a", "logprob": 1, "top_logprobs": [{"token": "b"}]}]},
    ),
    counted(prompt_tokens_details={"cached_tokens": 1}, completion_tokens_details={"reasoning_tokens": 9}),
    {"error": {"message": "m", "code": 400, "type": "t", "metadata": {"raw": "x"}, "n_ctx": 3}},
    {"object": "error", "message": "x", "code": 400},
    line({"content": "x", "tool_calls": [piece(LOOK, {"a": 1})]}),
    line({}, done=True, done_reason="stop", prompt_eval_count=2, eval_count=3),
]


def changed(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.12:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {name: changed(each, chance) for name, each in value.items() if chance.random() > 0.03}
    return [changed(each, chance) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("translation", [(), (translator(SERVER),)], ids=["chat", "ollama"])
def test_events_with_odd_values(translation: tuple[Any, ...]) -> None:
    for seed in range(4000):
        chance = random.Random(seed)
        payloads = [orjson.dumps(changed(chance.choice(EVENTS), chance)) for _ in range(3)]
        reader = ChatReader(
            ChatAnswer(ASKED), lambda event: error_in(event, "m", SERVER), Mask(), SERVER, *translation
        )
        with suppress(BridgeError):
            reader.read(payloads)
            reader.read([], at_end=True)
        for payload in payloads:
            assert isinstance(
                error_from_body(chance.choice((400, 422, 500)), payload, "m", None, SERVER), BridgeError
            )
