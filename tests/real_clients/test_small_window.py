"""The real agents go on past a window that is too small, by their own compaction and by the bridge's."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from counting_gemini import MODEL, SUMMARY, config_with_window, counted, is_for_summary
from gunicorn_bridge import Bridge, gunicorn_bridge
from installed import MODULES, PLATFORM, client_environment
from scripted_gemini import Asked, Reply, ScriptedGemini, call_chunk, sse, text_chunk

from bridge.connect.clients import CLIENTS, Target
from bridge.gemini.summary_part import START

CLAUDE = MODULES / f"@anthropic-ai/claude-code-{PLATFORM}" / "claude"
CODEX = MODULES / ".bin" / "codex"
STEPS = 4  #: calls of each tool loop
PAST = 20  #: requests beyond the window
MOST_PROMPTS = 16
PAGE = "The quick brown fox jumps over the lazy dog, and then it does so again. " * 500
#: Words of the agents' own requests for a summary.
OWN = ("detailed summary", "CONTEXT CHECKPOINT")
OWN_SUMMARY = "All so far, as the agent itself says."


class SmallGemini:
    """A Gemini that refuses what is longer than its window."""

    def __init__(self, scripted: ScriptedGemini, window: int, tool: Callable[[int], Any]) -> None:
        self._window = window
        self._tool = tool
        self.asked: list[dict[str, Any]] = []
        self.bridge_summaries = self.own_summaries = self.refused = 0
        scripted.will_answer(self._answer)

    def _answer(self, asked: Asked) -> Any:
        body = asked.body
        if asked.path.endswith(":countTokens"):
            return [orjson.dumps({"totalTokens": counted(body["generateContentRequest"])})]
        if is_for_summary(body):
            self.bridge_summaries += 1
            return sse(text_chunk(SUMMARY, "STOP"))
        tokens = counted(body)
        if tokens > self._window:
            self.refused += 1
            return Reply([orjson.dumps(_overflow(tokens, self._window))], status=400)
        if any(words in str(body["contents"][-1]) for words in OWN):
            self.own_summaries += 1
            return sse(text_chunk(f"<summary>{OWN_SUMMARY}</summary>", "STOP"))
        self.asked.append(body)
        return sse(*self._said(body, tokens))

    def _said(self, body: dict[str, Any], tokens: int) -> list[Any]:
        usage = {"promptTokenCount": tokens, "candidatesTokenCount": 2, "totalTokenCount": tokens + 2}
        if (calls := _calls_since_the_question(body["contents"])) == STEPS or "tools" not in body:
            return [text_chunk("Done.", "STOP", **usage)]
        end = {"candidates": [{"finishReason": "STOP", "index": 0}], "usageMetadata": usage}
        return [self._tool(len(self.asked) * 100 + calls), end]


def _overflow(tokens: int, limit: int) -> dict[str, Any]:
    said = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit})."
    return {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": said}}


def _calls_since_the_question(contents: list[dict[str, Any]]) -> int:
    calls = 0
    for turn in reversed(contents):
        if turn["role"] == "user" and not any("functionResponse" in part for part in turn["parts"]):
            return calls
        calls += sum("functionCall" in part for part in turn["parts"])
    return calls


@contextmanager
def bridge_with(scripted: ScriptedGemini, folder: Path, window: int, compress: str) -> Iterator[Bridge]:
    with gunicorn_bridge(
        GEMINI_API_KEY="a-key",
        GOOGLE_GEMINI_BASE_URL=scripted.address,
        BRIDGE_CONFIG_DIR=str(config_with_window(folder / "config", window)),
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        BRIDGE_CONTEXT__COMPRESS=compress,
        # Else masked results alone would make the space.
        BRIDGE_CONTEXT__OLD_RESULTS="false",
    ) as bridge:
        yield bridge


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedGemini]:
    gemini = ScriptedGemini()
    yield gemini
    gemini.close()


class Claude:
    window = 60_000

    def __init__(self, address: str, folder: Path, *, compacts: bool) -> None:
        """It compacts when the bridge refuses a prompt, whatever it believes of the window."""
        self._project = folder / "project"
        self._project.mkdir()
        (folder / "home").mkdir()
        settings = CLIENTS["claude"].main.text(Target(address, "any", MODEL))
        words = settings.split()
        self._environment = client_environment(folder / "home") | {
            **dict(word.replace("'", "").split("=", 1) for word in words if "=" in word),
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }

    @staticmethod
    def tool(number: int) -> Any:
        arguments = {"command": f"echo {number}", "description": f"Step {number}"}
        return call_chunk("Bash", arguments, f"call-{number}", "c2ln")

    def says(self, prompt: str, again: bool) -> str:
        command = [CLAUDE, "-p", "--output-format", "json", "--dangerously-skip-permissions"]
        told = _ran([*command, *(["--continue"] if again else [])], self._project, self._environment, prompt)
        return str(orjson.loads(told)["result"])


class Codex:
    window = 80_000

    def __init__(self, address: str, folder: Path, *, compacts: bool) -> None:
        """It compacts only before it reaches the window that its settings name."""
        self._project = folder / "project"
        self._project.mkdir()
        (folder / "home" / ".codex").mkdir(parents=True)
        configuration = CLIENTS["codex"].main.text(Target(address, "any", MODEL))
        lines = [line for line in configuration.splitlines() if "model_catalog_json" not in line]
        known = [
            f"model_context_window = {self.window}",
            f"model_auto_compact_token_limit = {self.window * 3 // 4}",
        ]
        self._settings = folder / "home" / ".codex" / "config.toml"
        self._settings.write_text("\n".join([*(known if compacts else []), *lines]))
        self._environment = client_environment(folder / "home") | {"BRIDGE_KEY": "any"}

    def is_told_that_it_speaks_to_openai(self) -> None:
        """By this name of the provider Codex decides to ask the server for the summary."""
        settings = self._settings.read_text()
        self._settings.write_text(re.sub(r'(?m)^name = ".*"$', 'name = "OpenAI"', settings, count=1))

    @staticmethod
    def tool(number: int) -> Any:
        return call_chunk("exec_command", {"cmd": f"echo {number}"}, f"call-{number}", "c2ln")

    def says(self, prompt: str, again: bool) -> str:
        free = "--dangerously-bypass-approvals-and-sandbox"
        command = [CODEX, "exec", *(["resume", "--last"] if again else []), "--json", "--skip-git-repo-check"]
        told = _ran([*command, free, "-"], self._project, self._environment, prompt)
        events = [orjson.loads(line) for line in told.splitlines() if line.startswith("{")]
        said = [
            event["item"]["text"]
            for event in events
            if event["type"] == "item.completed" and event["item"]["type"] == "agent_message"
        ]
        return said[-1] if said else told[-2000:]


def _ran(command: list[Any], project: Path, environment: dict[str, str], prompt: str) -> str:
    ran = subprocess.run(
        command, cwd=project, env=environment, input=prompt, capture_output=True, text=True, timeout=110
    )
    assert ran.stdout, ran.stderr
    return ran.stdout


AGENTS = pytest.mark.parametrize("kind", [Claude, Codex], ids=lambda kind: kind.__name__)


@pytest.mark.timeout(600)
@AGENTS
def test_the_bridge_compacts(scripted, tmp_path, kind):
    gemini = SmallGemini(scripted, kind.window, kind.tool)
    with bridge_with(scripted, tmp_path, kind.window, "all") as bridge:
        agent, past = kind(bridge.address, tmp_path, compacts=False), 0
        for number in range(MOST_PROMPTS):
            assert agent.says(f"Task {number}. {PAGE}", number > 0) == "Done."
            past = sum(START in str(body["contents"]) for body in gemini.asked)
            if past >= PAST:
                break
    assert past >= PAST
    assert gemini.bridge_summaries
    assert (gemini.own_summaries, gemini.refused) == (0, 0)


@pytest.mark.timeout(600)
@AGENTS
def test_the_agent_compacts(scripted, tmp_path, kind):
    gemini = SmallGemini(scripted, kind.window, kind.tool)
    with bridge_with(scripted, tmp_path, kind.window, "off") as bridge:
        agent, past = kind(bridge.address, tmp_path, compacts=True), 0
        for number in range(MOST_PROMPTS):
            told = agent.says(f"Task {number}. {PAGE}", number > 0)
            past = sum(OWN_SUMMARY in str(body["contents"]) for body in gemini.asked)
            if past >= PAST:
                break
    assert past >= PAST, told
    assert gemini.own_summaries
    assert gemini.bridge_summaries == 0


class RemoteCodex(Codex):
    window = 160_000  # after such a compaction, Codex keeps 64 000 tokens of messages


@pytest.mark.timeout(600)
def test_codex_asks_the_bridge_for_a_compaction_item(scripted, tmp_path):
    gemini = SmallGemini(scripted, RemoteCodex.window, Codex.tool)
    with bridge_with(scripted, tmp_path, RemoteCodex.window, "off") as bridge:
        agent, past = RemoteCodex(bridge.address, tmp_path, compacts=True), 0
        agent.is_told_that_it_speaks_to_openai()
        for number in range(MOST_PROMPTS):
            told = agent.says(f"Task {number}. {2 * PAGE}", number > 0)
            past = sum(START in str(body["contents"]) for body in gemini.asked)
            if past >= PAST:
                break
    assert past >= PAST, told
    assert gemini.bridge_summaries
    assert (gemini.own_summaries, gemini.refused) == (0, 0)
