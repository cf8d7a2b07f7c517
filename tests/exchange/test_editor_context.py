"""Blocks of editors are shortened in every protocol, behind the place where a conversation was cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import requests
from counting_gemini import MODEL, CountingGemini, config_with_window, counted
from growing_clients import Chat, ClaudeCode, Codex, GrowingClient
from gunicorn_bridge import Bridge, gunicorn_bridge
from prefixes import written
from scripted_gemini import ScriptedGemini

WINDOW = 20_000
UNCHANGED = "(unchanged since the last message)"
STATE = (
    "<environment_details>\n# VSCode Open Tabs\n"
    + "\n".join(f"src/package/module_{number}.ts" for number in range(60))
    + "\n\n# Current Time\n{time}\n</environment_details>"
)


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedGemini]:
    gemini = ScriptedGemini()
    yield gemini
    gemini.close()


def bridge_with(scripted: ScriptedGemini, tmp_path_factory: pytest.TempPathFactory, mode: str) -> Any:
    config = config_with_window(tmp_path_factory.mktemp("config"), WINDOW)
    return gunicorn_bridge(
        GEMINI_API_KEY="a-key",
        GOOGLE_GEMINI_BASE_URL=scripted.address,
        BRIDGE_CONFIG_DIR=str(config),
        BRIDGE_CONTEXT__COMPRESS="all",
        BRIDGE_CONTEXT__EDITOR_CONTEXT=mode,
    )


@pytest.fixture(scope="module")
def enforcing(scripted: ScriptedGemini, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    with bridge_with(scripted, tmp_path_factory, "enforce") as bridge:
        yield bridge


@pytest.fixture(scope="module")
def shadowing(scripted: ScriptedGemini, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    with bridge_with(scripted, tmp_path_factory, "shadow") as bridge:
        yield bridge


def said(number: int) -> str:
    return f"Task {number}.\n\n{STATE.replace('{time}', str(number))}"


def converse(client: GrowingClient, exchanges: int) -> None:
    for number in range(exchanges):
        client.user_says(said(number))
        while calls := client.send():
            client.tool_returns(calls, ["Found." for _ in calls])


def texts_of_user(body: dict[str, Any]) -> list[str]:
    parts = [part for turn in body["contents"] if turn["role"] == "user" for part in turn["parts"]]
    return [part["text"] for part in parts if "environment_details" in part.get("text", "")]


@pytest.mark.parametrize("kind", [Chat, ClaudeCode, Codex], ids=lambda kind: kind.__name__)
def test_repeated_state_is_sent_once(enforcing, scripted, kind):
    gemini = CountingGemini(scripted, WINDOW)
    client = kind(enforcing.address, MODEL)
    converse(client, 8)
    first, *others = texts_of_user(gemini.asked[-1])
    assert "module_59.ts" in first
    assert len(others) >= 7
    assert all(UNCHANGED in text and "module_" not in text for text in others)
    for before, after in pairwise(gemini.asked):
        assert written(after["contents"][: len(before["contents"])]) == written(before["contents"])
    last = enforcing.request(path=client._path())
    assert last["context"]["editor_context"] == len(others)
    assert last["notes"]["context.editor_context"] == 1


def test_the_first_block_behind_a_cut_is_whole(enforcing, scripted):
    gemini = CountingGemini(scripted, WINDOW)
    client = Chat(enforcing.address, MODEL)
    converse(client, 40)
    kept = texts_of_user(gemini.asked[-1])
    assert len(kept) < 40
    assert "module_59.ts" in kept[0]
    assert UNCHANGED in kept[1]
    assert {"summary", "leading_turns"} & set(enforcing.request(path=Chat.path)["context"])


def test_in_shadow_mode_only_the_saving_is_counted(shadowing, scripted):
    gemini = CountingGemini(scripted, WINDOW)
    converse(Chat(shadowing.address, MODEL), 3)
    assert all("module_59.ts" in text for text in texts_of_user(gemini.asked[-1]))
    last = shadowing.request(path=Chat.path)
    assert last["notes"]["context.editor_context.shadow"] == 1
    assert "context" not in last
    metrics = requests.get(f"{shadowing.address}/metrics", timeout=10).text
    (line,) = [line for line in metrics.split("\n") if 'step="editor_context_shadow"' in line]
    assert float(line.split()[-1]) > 300


def test_a_token_count_is_that_of_the_shorter_request(enforcing, scripted):
    CountingGemini(scripted, WINDOW)
    messages = [{"role": "user", "content": [{"type": "text", "text": said(number)}]} for number in range(3)]
    asked = [turn for each in messages for turn in (each, {"role": "assistant", "content": "Yes."})][:-1]

    def count(messages: list[dict[str, Any]]) -> int:
        body = {"model": MODEL, "messages": messages}
        answer = requests.post(f"{enforcing.address}/v1/messages/count_tokens", json=body, timeout=10)
        return int(answer.json()["input_tokens"])

    once = counted({"contents": STATE})
    assert once < count(asked) < 1.6 * once


def test_gemini_clis_own_changes_are_left_alone(enforcing, scripted):
    gemini = CountingGemini(scripted, WINDOW)
    contents = [
        {"role": "user", "parts": [{"text": said(1)}]},
        {"role": "model", "parts": [{"text": "Yes."}]},
    ] * 2
    body = {"contents": [*contents, contents[0]]}
    answer = requests.post(
        f"{enforcing.address}/v1beta/models/{MODEL}:generateContent", json=body, timeout=10
    )
    assert answer.status_code == 200
    assert all("module_59.ts" in text for text in texts_of_user(gemini.asked[-1]))
