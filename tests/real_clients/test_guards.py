"""The real agents with guards: a denied call and a loop each end only the turn."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from codex_catalog_file import write_codex_catalog
from gunicorn_bridge import ROOT, gunicorn_bridge
from installed import MODULES, PLATFORM, client_environment
from scripted_gemini import Asked, ScriptedGemini, call_chunk, sse, text_chunk

CLAUDE = MODULES / f"@anthropic-ai/claude-code-{PLATFORM}" / "claude"
CODEX = MODULES / ".bin" / "codex"
REASON = "Nobody may touch the forbidden-file."
LOOP = "[System] Detected an infinite loop"
RULES = f"""
[[rule]]
tool = "Bash"
args_pattern = "forbidden-file"
decision = "deny"
reason = "{REASON}"

[[rule]]
tool = "exec_command"
args_pattern = "forbidden-file"
decision = "deny"
reason = "{REASON}"
"""


@pytest.fixture(scope="module")
def _ruled(tmp_path_factory):
    """A bridge with two policy rules, and its Gemini."""
    folder = tmp_path_factory.mktemp("operator") / "config"
    shutil.copytree(ROOT / "config", folder, ignore=shutil.ignore_patterns("local.toml"))
    with (folder / "guards.toml").open("a") as guards:
        guards.write(RULES)
    scripted = ScriptedGemini()
    with gunicorn_bridge(
        GEMINI_API_KEY="any-key",
        GOOGLE_GEMINI_BASE_URL=scripted.address,
        BRIDGE_CONFIG_DIR=str(folder),
    ) as running:
        yield running, scripted
    scripted.close()


@pytest.fixture
def ruled(_ruled):
    _ruled[1].forget()
    return _ruled


class Claude:
    tool, argument = "Bash", "command"
    more = {"description": "Try"}  # noqa: RUF012

    def run(self, address: str, folder: Path) -> str:
        """Return the final text of a turn that ended normally."""
        section = (ROOT / "README.md").read_text().partition("### Claude Code")[2]
        told = dict(re.findall(r"^export (\w+)=(.*)$", section, re.MULTILINE))
        ran = subprocess.run(
            [
                *(CLAUDE, "-p", "try it", "--model", "gemini-3.1-pro-preview"),
                *("--output-format", "json", "--dangerously-skip-permissions"),
            ],
            cwd=folder,
            env=client_environment(folder)
            | told
            | {
                "ANTHROPIC_BASE_URL": address,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "IS_SANDBOX": "1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        result = json.loads(ran.stdout)
        assert (result["subtype"], result["is_error"]) == ("success", False)
        return result["result"]


class Codex:
    tool, argument = "exec_command", "cmd"
    more = {}  # noqa: RUF012

    def run(self, address: str, folder: Path) -> str:
        section = (ROOT / "README.md").read_text().partition("### Codex")[2]
        block = re.search(r"```toml\n(.*?)```", section, re.DOTALL)[1]
        (folder / ".codex").mkdir()
        (folder / ".codex" / "config.toml").write_text(block.replace("http://127.0.0.1:41242", address))
        write_codex_catalog(address, folder)
        ran = subprocess.run(
            [
                *(CODEX, "exec", "--json", "--skip-git-repo-check"),
                *("--dangerously-bypass-approvals-and-sandbox", "try it"),
            ],
            cwd=folder,
            env=client_environment(folder) | {"BRIDGE_KEY": "any"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        events = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        assert events[-1]["type"] == "turn.completed"
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        return [item["text"] for item in items if item["type"] == "agent_message"][-1]


AGENTS = pytest.mark.parametrize("agent", [Codex(), Claude()], ids=lambda agent: type(agent).__name__)


def shell_call(agent: Any, script: str, call_id: str) -> list[bytes]:
    args = {agent.argument: script, **agent.more}
    return sse(call_chunk(agent.tool, args, call_id, "c2lnbmVk", finish="STOP"))


def results(asked: Asked) -> list[dict[str, Any]]:
    parts = [part for content in asked.body["contents"] for part in content["parts"]]
    return [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]


@AGENTS
def test_a_call_that_the_policy_denies_is_not_run_and_the_turn_ends(agent, ruled, tmp_path):
    bridge, gemini = ruled
    gemini.will_say(shell_call(agent, "touch forbidden-file", "d1"))
    assert REASON in agent.run(bridge.address, tmp_path)
    assert not (tmp_path / "forbidden-file").exists()
    assert len(gemini.asked) == 1


@AGENTS
def test_a_call_that_matches_no_rule_is_run(agent, ruled, tmp_path):
    bridge, gemini = ruled
    gemini.will_say(shell_call(agent, "touch free-file", "f1"), sse(text_chunk("Done.", "STOP")))
    assert agent.run(bridge.address, tmp_path) == "Done."
    assert (tmp_path / "free-file").exists()


def endless(agent: Any, script: str) -> Any:
    numbers = count()

    def answer(asked: Asked) -> Any:
        made = len(results(asked))
        if made > 8:
            return sse(text_chunk("It was never stopped.", "STOP"))
        return shell_call(agent, script, f"l{next(numbers)}")

    return answer


@AGENTS
@pytest.mark.parametrize(
    ("script", "runs"),
    [("cat no-such-place; echo it failed; exit 1", 2), ("echo the same again", 3)],
    ids=["failing", "succeeding"],
)
def test_a_looping_model_is_stopped_and_the_turn_ends(agent, ruled, tmp_path, script, runs):
    bridge, gemini = ruled
    gemini.will_answer(endless(agent, script))
    assert agent.run(bridge.address, tmp_path).startswith(LOOP)
    assert len(gemini.asked) == runs
    assert len(results(gemini.asked[-1])) == runs - 1
