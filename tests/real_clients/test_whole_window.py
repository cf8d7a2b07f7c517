"""With the settings that the bridge prints, the real agents use the whole of Gemini's window.

The agents learn the length of a conversation from the usage that Gemini reports. So most of these
conversations are short with a large reported usage; one with each agent is really long.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gunicorn_bridge import Bridge, clean_environment
from installed import MODULES, PLATFORM
from scripted_gemini import Asked, ScriptedGemini, call_chunk, sse, text_chunk

from bridge.cli import main
from bridge.connect.clients import CLIENTS, Target

CLAUDE = MODULES / f"@anthropic-ai/claude-code-{PLATFORM}" / "claude"
CODEX = MODULES / ".bin" / "codex"
MODEL = "gemini-3.1-pro-preview"
LONG, TOO_LONG = 400_000, 960_000  #: tokens
STEPS = 4
#: Texts that the agents send when they compact a conversation.
ASK_FOR_A_SUMMARY = ("detailed summary", "CONTEXT CHECKPOINT")
SUMMARY = "All so far."

Answer = Callable[[Asked], Any]


def usage(tokens: int) -> dict[str, int]:
    return {"promptTokenCount": tokens, "candidatesTokenCount": 10, "totalTokenCount": tokens + 10}


def calls(asked: Asked) -> int:
    return sum("functionCall" in part for content in asked.body["contents"] for part in content["parts"])


def texts(asked: Asked) -> list[str]:
    return [part.get("text", "") for content in asked.body["contents"] for part in content["parts"]]


def is_for_a_summary(asked: Asked) -> bool:
    said = "".join(part.get("text", "") for part in asked.body["contents"][-1]["parts"])
    return any(words in said for words in ASK_FOR_A_SUMMARY)


def long_conversation(tokens: int, tool: str, argument: str) -> Answer:
    """Answer with shell calls, each with this reported number of tokens."""

    def answer(asked: Asked) -> Any:
        if is_for_a_summary(asked):
            return sse(text_chunk(f"<summary>{SUMMARY}</summary>", "STOP"))
        done = calls(asked)
        if done == STEPS or SUMMARY in str(asked.body["contents"]):
            return sse(text_chunk("Done.", "STOP", **usage(tokens)))
        step = call_chunk(tool, {argument: f"echo {done}"}, f"call-{done}", "c2ln")
        finished = {"candidates": [{"finishReason": "STOP", "index": 0}], "usageMetadata": usage(tokens)}
        return sse(step, finished)

    return answer


def was_compacted(gemini: ScriptedGemini) -> bool:
    return any(is_for_a_summary(asked) for asked in gemini.asked)


# --- Claude Code -------------------------------------------------------------------------------------


class Claude:
    def __init__(self, bridge: Bridge, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        exports = shlex.split(CLIENTS["claude"].main.text(Target(bridge.address, "any", MODEL)))
        self.environment = clean_environment() | {
            "ANTHROPIC_API_KEY": "another-key",  # the printed settings must remove it
            **dict(word.split("=", 1) for word in exports if word != "export"),
            "HOME": str(self.home),
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # allows it to run without asking, also for root
        }

    def says(self, prompt: str, *options: str) -> dict[str, Any]:
        ran = subprocess.run(
            [CLAUDE, "-p", "--output-format", "json", *options],
            cwd=self.project,
            env=self.environment,
            input=prompt,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert ran.stdout, ran.stderr
        told: dict[str, Any] = json.loads(ran.stdout)
        return told


@pytest.fixture
def claude(bridge: Bridge, tmp_path: Path) -> Claude:
    return Claude(bridge, tmp_path)


BASH = ("Bash", "command")
UNASKED = "--dangerously-skip-permissions"


def test_claude_code_does_not_compact_400_000_tokens(claude: Claude, gemini: ScriptedGemini) -> None:
    gemini.will_answer(long_conversation(LONG, *BASH))
    told = claude.says("take long", UNASKED)
    assert told["result"] == "Done."
    assert [each["contextWindow"] for each in told["modelUsage"].values()] == [1_000_000]
    assert not was_compacted(gemini)
    assert calls(gemini.asked[-1]) == STEPS


def test_claude_code_compacts_before_the_window_is_full(claude: Claude, gemini: ScriptedGemini) -> None:
    gemini.will_answer(long_conversation(TOO_LONG, *BASH))
    assert claude.says("take too long", UNASKED)["result"] == "Done."
    assert was_compacted(gemini)


def words(characters: int) -> str:
    line = "The quick brown fox jumps over the lazy dog, and then it does so again and again.\n"
    return line * (characters // len(line) + 1)


def test_claude_code_sends_a_text_that_fills_the_window(claude: Claude, gemini: ScriptedGemini) -> None:
    text = words(4 * LONG)
    gemini.will_answer(long_conversation(LONG, *BASH))
    assert claude.says(text, UNASKED)["result"] == "Done."
    assert not was_compacted(gemini)
    for asked in gemini.asked:
        assert any(text.strip() in said for said in texts(asked))


def test_the_picker_of_claude_code_gets_the_models_of_the_bridge(
    claude: Claude, gemini: ScriptedGemini
) -> None:
    del claude.environment["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"]  # as the notes say for older versions
    claude.environment |= {"DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1"}
    gemini.will_answer(lambda _: sse(text_chunk("Hello.", "STOP")))
    assert claude.says("hello", UNASKED)["result"] == "Hello."
    cached = json.loads((claude.home / ".claude" / "cache" / "gateway-models.json").read_text())
    names = {model["id"]: model["display_name"] for model in cached["models"]}
    assert names.keys() >= {f"claude/{MODEL}[1m]", "claude-opus-4-8[1m]"}
    assert "gemini-pro-latest" in names["claude-opus-4-8[1m]"]
    told = claude.says("hello", UNASKED, "--model", f"claude/{MODEL}[1m]")
    assert [each["contextWindow"] for each in told["modelUsage"].values()] == [1_000_000]
    assert f"/{MODEL}:" in gemini.asked[-1].path


def test_auto_mode_continues_without_checks_that_the_bridge_refuses(
    claude: Claude, gemini: ScriptedGemini, bridge: Bridge
) -> None:
    """Newer versions request these checks, and then retry without them."""
    before = len(bridge.requests(path="/v1/messages"))
    gemini.will_answer(lambda _: sse(text_chunk("Hello.", "STOP")))
    assert claude.says("hello", "--permission-mode", "auto")["result"] == "Hello."
    statuses = [line["status"] for line in bridge.requests(path="/v1/messages")[before:]]
    assert statuses in ([200], [400, 200])


# --- Codex -------------------------------------------------------------------------------------------


class Codex:
    def __init__(self, bridge: Bridge, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.project = folder / "home", folder / "project"
        (self.home / ".codex").mkdir(parents=True)
        self.project.mkdir()
        arguments = ["--url", bridge.address, "--model", MODEL, "--catalog", str(folder / "models.json")]
        assert main(["connect", "codex", *arguments]) == 0
        self.settings = capsys.readouterr().out
        self._environment = clean_environment() | {"HOME": str(self.home), "BRIDGE_KEY": "any"}

    def says(self, prompt: str, *options: str) -> list[dict[str, Any]]:
        (self.home / ".codex" / "config.toml").write_text(self.settings)
        ran = subprocess.run(
            [
                *(CODEX, "exec", "--dangerously-bypass-approvals-and-sandbox"),
                *("--skip-git-repo-check", *options, "--json", "-"),
            ],
            cwd=self.project,
            env=self._environment,
            input=prompt,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert ran.stdout, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


def items(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    done = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item for item in done if item["type"] == kind]


@pytest.fixture
def codex(bridge: Bridge, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Codex:
    return Codex(bridge, tmp_path, capsys)


SHELL = ("exec_command", "cmd")


def test_codex_does_not_compact_400_000_tokens(codex: Codex, gemini: ScriptedGemini) -> None:
    gemini.will_answer(long_conversation(LONG, *SHELL))
    events = codex.says("take long")
    assert [item["text"] for item in items(events, "agent_message")] == ["Done."]
    assert not items(events, "error"), "it knows the model"
    assert not was_compacted(gemini)
    assert calls(gemini.asked[-1]) == STEPS


def test_codex_compacts_before_the_window_is_full(codex: Codex, gemini: ScriptedGemini) -> None:
    gemini.will_answer(long_conversation(TOO_LONG, *SHELL))
    assert items(codex.says("take too long"), "agent_message")[-1]["text"] == "Done."
    assert was_compacted(gemini)


def test_without_the_catalogue_codex_compacts_400_000_tokens(codex: Codex, gemini: ScriptedGemini) -> None:
    lines = codex.settings.splitlines(keepends=True)
    codex.settings = "".join(line for line in lines if not line.startswith("model_catalog_json"))
    gemini.will_answer(long_conversation(LONG, *SHELL))
    assert items(codex.says("take long"), "agent_message")[-1]["text"] == "Done."
    assert was_compacted(gemini)


def test_codex_sends_a_text_that_fills_the_window(codex: Codex, gemini: ScriptedGemini) -> None:
    """Use two turns, as Codex accepts at most a million characters at once."""
    halves = [words(2 * LONG), words(2 * LONG).upper()]
    gemini.will_answer(lambda _: sse(text_chunk("Done.", "STOP", **usage(LONG))))
    codex.says(halves[0])
    assert items(codex.says(halves[1], "resume", "--last"), "agent_message")[-1]["text"] == "Done."
    assert not was_compacted(gemini)
    assert all(any(half.strip() in said for said in texts(gemini.asked[-1])) for half in halves)


def test_codex_patches_a_file_with_the_tool_that_the_catalogue_gives_it(
    codex: Codex, gemini: ScriptedGemini
) -> None:
    patch = "*** Begin Patch\n*** Add File: poem.txt\n+roses are red\n*** End Patch\n"
    gemini.will_say(
        sse(call_chunk("apply_patch", {"input": patch}, "c1", "c2ln", "STOP")),
        sse(text_chunk("Done.", "STOP")),
    )
    assert items(codex.says("write a poem"), "agent_message")[-1]["text"] == "Done."
    assert (codex.project / "poem.txt").read_text() == "roses are red\n"
