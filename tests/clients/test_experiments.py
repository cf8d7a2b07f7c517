"""Experiments with the real SDKs: real gunicorn with two workers, a restart, and a scripted Gemini."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
import requests
from anthropic import Anthropic
from command_line import command
from experiment_rows import A_MODEL, B_MODEL, HALVES, settings_folder
from gunicorn_bridge import Bridge, gunicorn_bridge
from openai import OpenAI
from scripted_gemini import Asked, ScriptedGemini, sse, text_chunk
from waiting import eventually

HEADER = "x-bridge-experiment"
SHADOW = '[[experiment.shadow]]\nname = "s"\nmodel = "gemini-3.6-flash"\nshare = 1\ncost_per_day = 5\n'
TURNS = 6
Start = Callable[[], AbstractContextManager[Bridge]]


def answer(asked: Asked) -> list[bytes]:
    """Each model says its name."""
    model = asked.path.rpartition("/")[2].partition(":")[0]
    used = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    return sse(text_chunk(f"I am {model}"), text_chunk(".", "STOP", **used))


@pytest.fixture
def start(tmp_path: Path, gemini: ScriptedGemini, canary_key: str) -> Start:
    """Starts the bridge, each time with the same settings and the same state."""
    gemini.will_answer(answer)
    config, state = settings_folder(tmp_path, HALVES + SHADOW), tmp_path / "state"
    return lambda: gunicorn_bridge(
        GEMINI_API_KEY=canary_key,
        GOOGLE_GEMINI_BASE_URL=gemini.address,
        BRIDGE_CONFIG_DIR=str(config),
        BRIDGE_STATE_DIR=str(state),
    )


class Chat:
    """A conversation by the OpenAI SDK; the client names no session."""

    def __init__(self, number: int) -> None:
        self.messages = [{"role": "user", "content": f"Question {number}"}]
        self.said: list[str] = []

    def turn(self, bridge: Bridge) -> None:
        with OpenAI(base_url=f"{bridge.address}/v1", api_key="none", max_retries=0) as sdk:
            raw = sdk.chat.completions.with_raw_response.create(model="sonnet", messages=self.messages)
        self.said.append(f"{raw.headers[HEADER]} {raw.headers['x-bridge-model']}")
        text = raw.parse().choices[0].message.content
        self.messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "More"}]


class Talk(Chat):
    """A streamed conversation by the Anthropic SDK."""

    def turn(self, bridge: Bridge) -> None:
        with (
            Anthropic(base_url=bridge.address, api_key="none", max_retries=0) as sdk,
            sdk.messages.stream(model="sonnet", messages=self.messages, max_tokens=1000) as stream,
        ):
            text = stream.get_final_text()
            headers = stream.response.headers
        self.said.append(f"{headers[HEADER]} {headers['x-bridge-model']}")
        assert text == f"I am {headers['x-bridge-model']}."
        self.messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "More"}]


def has_copied(bridge: Bridge, count: int) -> bool:
    """Whether the workers together have answers of so many shadows."""
    page = requests.get(f"{bridge.address}/metrics", timeout=30).text
    return f'shadow_requests_total{{arm="s",end="answered",experiment="halves"}} {count}.0' in page


@pytest.mark.parametrize("kind", [Chat, Talk])
def test_conversations_keep_their_arms_over_workers_and_a_restart(
    start: Start, gemini: ScriptedGemini, tmp_path: Path, kind: type[Chat]
) -> None:
    chats = [kind(number) for number in range(8)]
    for _ in range(2):
        with start() as bridge:
            for _ in range(TURNS // 2):
                for chat in chats:
                    chat.turn(bridge)
            assert eventually(lambda: len(bridge.requests(experiment="halves")) >= 8 * TURNS // 2)
            copied = sum("arm=a" in said for chat in chats for said in chat.said[-TURNS // 2 :])
            assert eventually(partial(has_copied, bridge, copied))
            lines = bridge.requests(experiment="halves")
            assert {line["arm"] for line in lines} == {"a", "b"}
            assert len({line["conversation"] for line in lines}) == 8
    arms = [set(chat.said) for chat in chats]
    assert all(len(arm) == 1 for arm in arms)
    assert set.union(*arms) == {f"halves; arm=a {A_MODEL}", f"halves; arm=b {B_MODEL}"}
    assert all(len(chat.said) == TURNS for chat in chats)
    shadowed = [asked for asked in gemini.asked if "/gemini-3.6-flash:" in asked.path]
    of_control = sum(len(chat.said) for chat in chats if "arm=a" in chat.said[0])
    assert len(shadowed) == of_control
    report = command(
        "experiment",
        "report",
        "halves",
        BRIDGE_CONFIG_DIR=str(tmp_path / "config"),
        BRIDGE_STATE_DIR=str(tmp_path / "state"),
    )
    in_a = sum("arm=a" in chat.said[0] for chat in chats)
    rows = [line.split() for line in report.splitlines()]
    assert ["conversations", str(in_a), str(8 - in_a)] in rows
    assert ["requests", str(in_a * TURNS), str((8 - in_a) * TURNS)] in rows
    assert ["requests", str(of_control), str(of_control)] in rows, "of the shadow"
