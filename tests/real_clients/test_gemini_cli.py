"""The real Gemini CLI, driven as `gemini -p`, through the bridge against a scripted Gemini."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from installed import MODULES, client_environment
from scripted_gemini import CUT, Asked, Reply, call_chunk, sse, text_chunk

from bridge.connect.clients import CLIENTS, Target

GEMINI = MODULES / ".bin" / "gemini"
SIGNATURE = "c2lnbmVkLWJ5LWdlbWluaQ=="
#: Additional project settings, so that no data leaves this machine.
QUIET = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}


class GeminiCli:
    """A user with a separate home and project."""

    def __init__(self, address: str, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        # The documented variables and files of the README, the command and the page.
        exports, settings = CLIENTS["gemini"].snippets
        target = Target(address, "any", "gemini-3.1-pro-preview")
        for place, written in ((self.home, settings.text(target)), (self.project, json.dumps(QUIET))):
            (place / ".gemini").mkdir(parents=True)
            (place / ".gemini" / "settings.json").write_text(written)
        told = dict(re.findall(r"export (\w+)=(\S+)", exports.text(target)))
        places = {"TMPDIR": str(folder), "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        self._environment = client_environment(self.home) | told | places

    def says(self, prompt: str, *options: str) -> dict[str, Any]:
        ran = subprocess.run(
            [GEMINI, "--approval-mode", "yolo", "--output-format", "json", *options, "--prompt", prompt],
            cwd=self.project,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
        )
        said = ran.stdout or ran.stderr  # stderr has the failure among other lines
        told: dict[str, Any] = json.loads(said[said.rindex('{\n  "session_id"') :])
        return told


@pytest.fixture
def cli(bridge, tmp_path):
    return GeminiCli(bridge.address, tmp_path)


def say(text: str) -> list[bytes]:
    return sse(text_chunk(text, "STOP"))


def call(name: str, /, call_id: str | None = "c1", **args: Any) -> Any:
    chunk = call_chunk(name, args, call_id, SIGNATURE, "STOP")
    if call_id is None:
        del chunk["candidates"][0]["content"]["parts"][0]["functionCall"]["id"]
    return chunk


def parts(asked: Asked, kind: str) -> list[dict[str, Any]]:
    return [part for content in asked.body["contents"] for part in content["parts"] if kind in part]


def error(status: int, name: str, message: str, *details: Any) -> Reply:
    envelope = {"error": {"code": status, "status": name, "message": message, "details": list(details)}}
    return Reply([json.dumps(envelope).encode()], status=status)


def test_plain_text(cli, gemini):
    gemini.will_say(say("Hello from the bridge."))
    told = cli.says("say hello", "--model", "gemini-3.1-pro-preview")
    assert told["response"] == "Hello from the bridge."
    assert told["stats"]["models"]["gemini-3.1-pro-preview"]["tokens"]["total"] == 7
    (asked,) = gemini.asked
    assert asked.path == "/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse"
    assert "say hello" in str(parts(asked, "text"))
    assert asked.body["generationConfig"]["thinkingConfig"]["includeThoughts"] is True
    declared = {each["name"] for each in asked.body["tools"][0]["functionDeclarations"]}
    assert "run_shell_command" in declared


@pytest.mark.parametrize("call_id", ["c1", None])
def test_the_shell_runs_and_its_result_comes_back_with_the_signature(cli, gemini, call_id):
    command = call("run_shell_command", call_id, command="seq -s - 40 42", description="Count")
    gemini.will_say(sse(command), say("It printed it."))
    told = cli.says("compute", "--model", "gemini-3.1-pro-preview")
    assert told["response"] == "It printed it."
    assert told["stats"]["tools"]["byName"]["run_shell_command"]["success"] == 1
    last = gemini.asked[-1]
    assert "40-41-42" in str(parts(last, "functionResponse"))
    assert parts(last, "functionCall")[0]["thoughtSignature"] == SIGNATURE


def test_a_file_is_written(cli, gemini):
    written = call("write_file", file_path=str(cli.project / "poem.txt"), content="roses are blue\n")
    gemini.will_say(sse(written), say("Written."))
    assert cli.says("write it")["response"] == "Written."
    assert (cli.project / "poem.txt").read_text() == "roses are blue\n"


def test_a_long_thought_does_not_time_out(cli, gemini):
    """Wait longer than several heartbeats, before and after the first word."""
    gemini.will_say([1.0, *sse(text_chunk("Let me see … ")), 1.0, *say("Yes.")])
    assert cli.says("think")["response"] == "Let me see … Yes."


@pytest.mark.parametrize("silence", [[], [1.0]], ids=["at once", "after a silence"])
def test_a_truncated_stream_is_retried_and_not_accepted_as_an_answer(cli, gemini, silence):
    gemini.will_say([*sse(text_chunk("Half an ans")), *silence, CUT], say("The whole answer."))
    assert cli.says("tell me")["response"].endswith("The whole answer.")
    assert len(gemini.asked) == 2


def test_the_client_retries_after_a_rate_limit(cli, gemini):
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.5s"}
    gemini.will_say(error(429, "RESOURCE_EXHAUSTED", "Slow down.", wait), say("Made it."))
    assert cli.says("hurry")["response"] == "Made it."
    assert len(gemini.asked) == 2


def test_a_wrong_upstream_key_is_reported_once_with_a_clear_message(cli, gemini):
    gemini.will_answer(lambda _: error(403, "PERMISSION_DENIED", "No."))
    told = cli.says("try")
    assert "administrator" in told["error"]["message"]
    assert len(gemini.asked) == 1
