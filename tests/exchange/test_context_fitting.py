"""A conversation that outgrows the window of its model goes on, in every protocol, under real gunicorn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import requests
from counting_gemini import MODEL, ROUNDS, CountingGemini, config_with_window
from gemini_rules import broken_rules
from growing_clients import CLIENTS, Chat, ClaudeCode, GrowingClient
from gunicorn_bridge import Bridge, gunicorn_bridge
from prefixes import written
from scripted_gemini import ScriptedGemini

from bridge.gemini.wire import request_from_json

WINDOW = 5000
EXCHANGES = 14


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedGemini]:
    gemini = ScriptedGemini()
    yield gemini
    gemini.close()


@pytest.fixture(scope="module")
def shortening(scripted: ScriptedGemini, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    config = config_with_window(tmp_path_factory.mktemp("config"), WINDOW)
    with gunicorn_bridge(
        GEMINI_API_KEY="a-key",
        GOOGLE_GEMINI_BASE_URL=scripted.address,
        BRIDGE_CONFIG_DIR=str(config),
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        BRIDGE_CONTEXT__COMPRESS="all",
        BRIDGE_CONTEXT__PROTECTED_TOKENS="500",
    ) as bridge:
        yield bridge


def converse(client: GrowingClient, exchanges: int = EXCHANGES) -> None:
    for number in range(exchanges):
        client.user_says(f"Task {number}. " + "Please look again. " * 20)
        for _ in range(ROUNDS):
            calls = client.send()
            assert calls
            client.tool_returns(calls, [f"What was found: {'a line of output; ' * 24}" for _ in calls])
        assert client.send() == []


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.__name__)
def test_a_conversation_goes_on_past_the_window(shortening, scripted, kind):
    gemini = CountingGemini(scripted, WINDOW)
    client = kind(shortening.address, MODEL)
    converse(client)  # every answer is a success
    assert len(gemini.asked) == EXCHANGES * (ROUNDS + 1)
    for body in gemini.asked:
        assert broken_rules(request_from_json(MODEL, body).contents, prefill=False) == []
    begun = sum(_begins_as(before, after) for before, after in pairwise(gemini.asked))
    assert begun >= 0.7 * len(gemini.asked)
    last = shortening.request(path=client._path())
    assert set(last["context"]) <= {"old_thoughts", "old_results", "old_media", "summary", "leading_turns"}
    assert last["notes"]["context.old_results"] == 1


def _begins_as(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    turns = earlier["contents"]
    return written(later["contents"][: len(turns)]) == written(turns)


def test_a_request_far_from_the_edge_is_neither_counted_nor_changed(shortening, scripted):
    gemini = CountingGemini(scripted, WINDOW)
    client = Chat(shortening.address, MODEL)
    converse(client, exchanges=2)
    assert gemini.times_counted == 0
    assert "context" not in shortening.request(path=Chat.path)


def test_the_header_says_what_was_done(shortening, scripted):
    CountingGemini(scripted, WINDOW)
    client = ClaudeCode(shortening.address, MODEL)
    converse(client)
    client.user_says("And now?")
    answer = requests.post(
        shortening.address + client.path, json=client._body(), headers=client.headers, timeout=30
    )
    told = dict(each.split("=") for each in answer.headers["x-bridge-context"].split(";"))
    assert int(told.pop("saved")) > 500
    assert {name: int(changes) for name, changes in told.items()} == shortening.request(
        request_id=answer.headers["x-request-id"]
    )["context"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/messages", {"max_tokens": 100}, "prompt is too long: "),
        ("/v1/chat/completions", {}, "This model's maximum context length is 5000 tokens."),
        ("/v1/responses", {}, "This model's maximum context length is 5000 tokens."),
    ],
)
def test_a_turn_larger_than_the_window_is_an_honest_error(shortening, scripted, path, body, words):
    gemini = CountingGemini(scripted, WINDOW)
    messages = [{"role": "user", "content": "much " * 10_000}]
    said = {"input": messages} if path == "/v1/responses" else {"messages": messages}
    answer = requests.post(shortening.address + path, json={"model": MODEL, **said, **body}, timeout=30)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert gemini.asked == []


def test_the_estimate_decides_while_the_upstream_cannot_count(shortening, scripted):
    gemini = CountingGemini(scripted, WINDOW, counts=False)
    converse(Chat(shortening.address, MODEL))
    assert gemini.times_counted > 0
    assert shortening.request(path=Chat.path)["notes"]["context.estimated"] == 1


def test_a_changed_past_is_shortened_as_it_comes(shortening, scripted):
    """An editor that rewrites an old turn loses the cache, and nothing else."""
    CountingGemini(scripted, WINDOW)
    client = Chat(shortening.address, MODEL)
    converse(client)
    client._messages[1] = {"role": "user", "content": "Another beginning."}
    client._messages[20:22] = []
    client.user_says("Go on.")
    assert client.send() is not None


def test_the_metrics_tell_what_was_saved_and_how_good_the_estimate_is(shortening, scripted):
    CountingGemini(scripted, WINDOW)
    before = metrics(shortening)
    converse(Chat(shortening.address, MODEL))
    after = metrics(shortening)
    saved = 'context_saved_tokens_total{step="old_results"}'
    assert after[saved] > before.get(saved, 0)
    count, total = (f'context_estimate_error_ratio_{each}{{model="{MODEL}"}}' for each in ("count", "sum"))
    estimated = after[count] - before.get(count, 0)
    assert estimated == EXCHANGES * (ROUNDS + 1)
    assert (after[total] - before.get(total, 0)) / estimated < 0.4


def metrics(bridge: Bridge) -> dict[str, float]:
    lines = requests.get(f"{bridge.address}/metrics", timeout=30).text.splitlines()
    pairs = [line.removeprefix("gemini_bridge_").rsplit(" ", 1) for line in lines if line[:1] != "#"]
    return {name: float(value) for name, value in pairs}
