"""The records of runs, the command that shows them, and a run that goes on after its worker was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests
from agent_bridge import FILES, agent_bridge, results_in
from command_line import attempt
from gunicorn_bridge import Bridge
from scripted_gemini import Asked, Reply, ScriptedGemini, call_chunk, sse, text_chunk
from waiting import eventually

QUESTION = "What is the canary in the store?"


@pytest.fixture
def gemini() -> Any:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


def command(
    bridge: Bridge, config: Path, gemini: ScriptedGemini, *words: str
) -> subprocess.CompletedProcess[str]:
    return attempt(
        "agent",
        *words,
        BRIDGE_STATE_DIR=str(bridge.state),
        BRIDGE_CONFIG_DIR=str(config),
        GEMINI_API_KEY="AIzaCanary0123456789abcdefghijklmnopqrs",
        GOOGLE_GEMINI_BASE_URL=gemini.address,
    )


def used_models(bridge: Bridge) -> str:
    """The report of the usage. The worker was killed before it wrote its own row."""
    return attempt("usage", "--by", "client-model", "--csv", BRIDGE_STATE_DIR=str(bridge.state)).stdout


def ask(bridge: Bridge, *, stream: bool = False) -> requests.Response:
    body = {"model": "agent/reader", "stream": stream, "messages": [{"role": "user", "content": QUESTION}]}
    return requests.post(f"{bridge.address}/v1/chat/completions", json=body, timeout=30, stream=stream)


def reads_then(answer: Any) -> Any:
    def model(asked: Asked) -> Any:
        if results_in(asked):
            return answer
        return sse(call_chunk("code__read_file", {"path": "store.py"}, "c1", "c2lnbmVk", "STOP"))

    return model


def test_without_texts_a_record_has_the_structure_only(gemini: ScriptedGemini, tmp_path: Path) -> None:
    gemini.will_answer(reads_then(sse(text_chunk("A canary.", "STOP"))))
    with agent_bridge(gemini, tmp_path) as bridge:
        assert ask(bridge).json()["choices"][0]["message"]["content"] == "A canary."
        listed = command(bridge, tmp_path / "config", gemini, "list").stdout
        assert "agent/analyst" in listed
        assert "Analyses a module" in listed
        line = command(bridge, tmp_path / "config", gemini, "runs").stdout.splitlines()[1]
        run_id = line.split()[0]
        assert "GOAL" in line
        shown = command(bridge, tmp_path / "config", gemini, "show", run_id).stdout
        refused = command(bridge, tmp_path / "config", gemini, "resume", run_id)
        unknown = command(bridge, tmp_path / "config", gemini, "show", "nobody")
    first, round_line, last = map(json.loads, shown.splitlines())
    assert (first["agent"], first["run"]) == ("reader", run_id)
    assert (
        round_line["calls"][0].items()
        >= {
            "name": "code__read_file",
            "state": "success",
            "characters": len("output" + FILES["store.py"].rstrip()),
        }.items()
    )
    assert last["end"] == "GOAL"
    assert "canary" not in shown
    assert "class Store" not in shown
    assert refused.returncode == 1
    assert "it has ended: GOAL" in refused.stderr
    assert unknown.returncode == 1


def test_nothing_is_recorded_if_it_is_switched_off(gemini: ScriptedGemini, tmp_path: Path) -> None:
    gemini.will_answer(reads_then(sse(text_chunk("A canary.", "STOP"))))
    with agent_bridge(gemini, tmp_path, BRIDGE_AGENT_RUNS__RECORD="off") as bridge:
        assert ask(bridge).ok
        assert "no record" in command(bridge, tmp_path / "config", gemini, "runs").stdout


def test_a_run_whose_worker_was_killed_goes_on_after_its_last_round(
    gemini: ScriptedGemini, tmp_path: Path
) -> None:
    gemini.will_answer(reads_then(Reply([*sse(text_chunk("A ")), 20.0])))
    more = {"BRIDGE_AGENT_RUNS__RECORD": "full", "BRIDGE_SERVER__WORKERS": "1"}
    with agent_bridge(gemini, tmp_path, **more) as bridge:
        (worker,) = bridge.workers()
        answer = ask(bridge, stream=True)
        assert eventually(lambda: len(gemini.asked) == 2)
        os.kill(worker, signal.SIGKILL)
        answer.close()
        line = eventually(lambda: command(bridge, tmp_path / "config", gemini, "runs").stdout.splitlines())[1]
        assert "after round 1: running or interrupted" in line
        run_id = line.split()[0]
        gemini.forget()
        gemini.will_answer(reads_then(sse(text_chunk("A store."), text_chunk("", "STOP"))))
        resumed = command(bridge, tmp_path / "config", gemini, "resume", run_id)
        assert (resumed.stdout, resumed.returncode) == ("A store.\n", 0), resumed.stderr
        assert "agent/reader" in used_models(bridge)
        again = command(bridge, tmp_path / "config", gemini, "resume", run_id)
        assert "it has ended: GOAL" in again.stderr
    (asked,) = gemini.asked  # the tool did not run again
    question, call, result = asked.body["contents"]
    assert question["parts"] == [{"text": QUESTION}]
    assert call["parts"][0]["thoughtSignature"] == "c2lnbmVk"
    assert result["parts"][0]["functionResponse"]["response"] == {"output": FILES["store.py"].rstrip()}
    assert asked.body["systemInstruction"]["parts"] == [{"text": "Answer questions about the code."}]
