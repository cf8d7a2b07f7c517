"""An agent of the bridge as the model of the real Claude Code and the real Codex."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_bridge import FILES, agent_bridge, declared, results_in
from gunicorn_bridge import Bridge
from scripted_gemini import Asked, ScriptedGemini, call_chunk, sse, text_chunk
from test_claude_code import Claude
from test_codex import Codex

MODEL = "agent/reader"
ANSWER = "It is a store."


def reader(asked: Asked) -> Any:
    """A model that reads a file with the agent's tool; other requests of the client get a short text."""
    if "code__read_file" not in declared(asked):
        return sse(text_chunk("Fine.", "STOP"))
    if results_in(asked):
        return sse(text_chunk(ANSWER, "STOP"))
    return sse(call_chunk("code__read_file", {"path": "store.py"}, "c1", "c2lnbmVk", "STOP"))


@pytest.fixture(scope="module")
def gemini() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


@pytest.fixture(scope="module")
def running(gemini: ScriptedGemini, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    with agent_bridge(gemini, tmp_path_factory.mktemp("agents")) as bridge:
        yield bridge


@pytest.fixture(autouse=True)
def script(gemini: ScriptedGemini) -> None:
    gemini.forget()
    gemini.will_answer(reader)


def results(gemini: ScriptedGemini) -> list[dict[str, Any]]:
    return [found for asked in gemini.asked if (found := results_in(asked))]


def test_claude_code(running: Bridge, gemini: ScriptedGemini, tmp_path: Path) -> None:
    answer = Claude(running.address, tmp_path).says("What is the store?", model=MODEL)
    assert (answer["result"], answer["is_error"]) == (ANSWER, False)
    assert results(gemini) == [{"code__read_file": {"output": FILES["store.py"].rstrip()}}]


def test_codex(running: Bridge, gemini: ScriptedGemini, tmp_path: Path) -> None:
    events = Codex(running.address, tmp_path).says("What is the store?", model=MODEL)
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    assert [item["text"] for item in items if item["type"] == "agent_message"] == [ANSWER]
    assert events[-1]["type"] == "turn.completed"
    assert results(gemini) == [{"code__read_file": {"output": FILES["store.py"].rstrip()}}]
