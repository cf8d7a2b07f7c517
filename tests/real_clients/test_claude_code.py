"""The real Claude Code, driven as `claude -p`, through the bridge against a scripted Gemini."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from installed import MODULES, PLATFORM, client_environment, installed_version
from prefixes import assert_each_begins_as_the_one_before
from scripted_gemini import Asked, Reply, call_chunk, sse, text_chunk

from bridge.connect.clients import CLIENTS, Target

CLAUDE = MODULES / f"@anthropic-ai/claude-code-{PLATFORM}" / "claude"
MODEL = "gemini-3.1-pro-preview"
SIGNATURE = "c2lnbmVkLWJ5LWdlbWluaQ=="
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def settings_for(address: str, key: str = "any") -> dict[str, str]:
    """The documented Claude Code settings of the README, the command and the page."""
    exports = CLIENTS["claude"].main.text(Target(address, key, MODEL))
    words = shlex.split(exports)
    settings = dict(word.split("=", 1) for word in words if word != "export")
    assert settings.keys() >= {"ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_MODEL"}
    return settings


class Claude:
    """A user with a separate home and project."""

    def __init__(self, address: str, folder: Path, key: str = "any") -> None:
        self._address = address
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self._environment = client_environment(self.home) | {
            **settings_for(address, key),
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # allows unattended runs, also for root
        }

    def reads_its_settings_from_a_file(self) -> None:
        """Use the settings file, which is documented as an alternative to the environment."""
        settings = settings_for(self._address)
        self._environment = {name: value for name, value in self._environment.items() if name not in settings}
        (self.home / ".claude").mkdir()
        text = CLIENTS["claude"].snippets[1].text(Target(self._address, "any", MODEL))
        (self.home / ".claude" / "settings.json").write_text(text)

    def says(self, prompt: str, *options: str, model: str | None = None) -> dict[str, Any]:
        chosen = ["--model", model] if model else []
        command = [CLAUDE, "-p", prompt, *chosen, "--output-format", "json"]
        ran = subprocess.run(
            [*command, "--dangerously-skip-permissions", *options],
            cwd=self.project,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert ran.stdout, ran.stderr
        return json.loads(ran.stdout)


@pytest.fixture
def claude(bridge, tmp_path):
    return Claude(bridge.address, tmp_path)


def say(text: str) -> list[bytes]:
    return sse(text_chunk(text, "STOP"))


def call(name: str, call_id: str, /, signature: str | None = SIGNATURE, **args: Any) -> Any:
    return call_chunk(name, args, call_id, signature)


def finished() -> Any:
    return {"candidates": [{"finishReason": "STOP", "index": 0}]}


def answers(gemini) -> list[dict[str, Any]]:
    """Return the function responses of the last request that had any."""
    turns = [content["parts"] for asked in gemini.asked for content in asked.body["contents"]]
    return [part["functionResponse"] for part in turns[-1] if "functionResponse" in part]


def calls(asked: Asked) -> list[dict[str, Any]]:
    parts = [part for content in asked.body["contents"] for part in content["parts"]]
    return [part for part in parts if "functionCall" in part]


def test_plain_text(claude, gemini):
    gemini.will_say(say("Hello from the bridge."))
    told = claude.says("say hello")
    assert told["result"] == "Hello from the bridge."
    assert told["usage"]["input_tokens"] == 5
    assert len(gemini.asked) == 1
    body = gemini.asked[0].body
    assert "billing-header" not in body["systemInstruction"]["parts"][0]["text"]
    assert {each["name"] for each in body["tools"][0]["functionDeclarations"]} >= {"Bash", "Read", "Edit"}


def test_the_settings_file_works_like_the_environment(claude, gemini):
    gemini.will_say(say("Hello from the bridge."))
    claude.reads_its_settings_from_a_file()
    assert claude.says("say hello")["result"] == "Hello from the bridge."
    assert MODEL in gemini.asked[0].path


def test_bash_runs_and_its_result_comes_back(claude, gemini):
    gemini.will_say(
        sse(call("Bash", "c1", command="echo bridge-$((6*7))", description="Compute"), finished()),
        say("It printed bridge-42."),
    )
    assert claude.says("compute")["result"] == "It printed bridge-42."
    assert "bridge-42" in str(answers(gemini))
    assert calls(gemini.asked[-1])[0]["thoughtSignature"] == SIGNATURE


def test_six_parallel_calls_are_answered_in_the_order_of_the_calls(claude, gemini):
    six = [
        call(
            "Bash",
            f"c{number}",
            signature=SIGNATURE if number == 1 else None,
            command=f"sleep 0.{7 - number}; echo result-{number}",
            description=f"Number {number}",
        )
        for number in range(1, 7)
    ]
    gemini.will_say(sse(*six, finished()), say("All six."))
    assert claude.says("six at once")["result"] == "All six."
    told = [json.dumps(each["response"]) for each in answers(gemini)]
    assert len(told) == 6
    assert all(f"result-{number}" in told[number - 1] for number in range(1, 7))


def test_write_and_edit_really_change_a_file(claude, gemini):
    place = str(claude.project / "poem.txt")
    gemini.will_say(
        sse(call("Write", "c1", file_path=place, content="roses are red\n"), finished()),
        sse(call("Edit", "c2", file_path=place, old_string="red", new_string="blue"), finished()),
        say("Done."),
    )
    assert claude.says("write a poem")["result"] == "Done."
    assert Path(place).read_text() == "roses are blue\n"


def test_an_image_is_read_and_shown_to_gemini(claude, gemini):
    place = claude.project / "dot.png"
    place.write_bytes(PNG)
    gemini.will_say(sse(call("Read", "c1", file_path=str(place)), finished()), say("A dot."))
    assert claude.says("look at it")["result"] == "A dot."
    shown = answers(gemini)[0]["parts"][0]["inlineData"]
    assert shown["mimeType"] == "image/png"
    assert base64.b64decode(shown["data"])[:4] == b"\x89PNG"


def test_thinking_and_its_signatures_are_kept_over_a_tool_loop(claude, gemini):
    thought = {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "I think.", "thought": True}]}}]
    }
    second = "c2Vjb25k"
    gemini.will_say(
        sse(thought, call("Bash", "c1", command="echo 1", description="1"), finished()),
        sse(call("Bash", "c2", signature=second, command="echo 2", description="2"), finished()),
        sse(
            text_chunk("Before "),
            call("Bash", "c3", signature="dGhpcmQ=", command="echo 3", description="3"),
            finished(),
        ),
        say("Thought through."),
    )
    assert claude.says("think")["result"] == "Thought through."
    parts = [part for content in gemini.asked[-1].body["contents"] for part in content["parts"]]
    assert {"text": "I think.", "thought": True} in parts
    signed = [part["thoughtSignature"] for part in calls(gemini.asked[-1])]
    assert signed == [SIGNATURE, second, "dGhpcmQ="]


def test_switching_the_model_drops_foreign_signatures_and_continues(claude, gemini):
    gemini.will_say(
        sse(call("Bash", "c1", command="echo 1", description="1"), finished()),
        say("First."),
        say("Second."),
    )
    claude.says("one")
    assert claude.says("two", "--continue", model="gemini-4-argon")["result"] == "Second."
    assert "streamGenerateContent" in gemini.asked[-1].path
    assert "gemini-4-argon" in gemini.asked[-1].path
    assert SIGNATURE not in json.dumps(gemini.asked[-1].body)


def test_a_subagent_that_asks_for_a_haiku_model_gets_one(claude, gemini):
    def answer(asked: Asked) -> Any:
        if "gemini-flash-latest" in asked.path:
            return say("The subagent found it.")
        if calls(asked):
            return say("The subagent is back.")
        task = {"description": "Find", "prompt": "Find it.", "subagent_type": "Explore"}
        return sse(call("Agent", "c1", model="haiku", **task), finished())

    gemini.will_answer(answer)
    assert claude.says("send somebody")["result"] == "The subagent is back."
    assert any("gemini-flash-latest" in asked.path for asked in gemini.asked)
    assert "The subagent found it." in str(gemini.asked[-1].body["contents"])  # the result arrived


def error(status: int, name: str, message: str, *details: Any) -> Reply:
    envelope = {"error": {"code": status, "status": name, "message": message, "details": list(details)}}
    return Reply([json.dumps(envelope).encode()], status=status)


def test_the_client_retries_after_a_rate_limit(claude, gemini):
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}
    gemini.will_say(error(429, "RESOURCE_EXHAUSTED", "Slow down.", wait), say("Made it."))
    assert claude.says("hurry")["result"] == "Made it."
    assert len(gemini.asked) == 2


def test_an_overload_is_retried(claude, gemini):
    gemini.will_say(error(503, "UNAVAILABLE", "The model is overloaded."), say("Made it."))
    assert claude.says("hurry")["result"] == "Made it."


def test_an_error_in_mid_stream_is_retried_and_not_accepted_as_an_answer(claude, gemini):
    broken = [
        *sse(text_chunk("Half an ans")),
        b'data: {"error": {"code": 503, "status": "UNAVAILABLE"}}\r\n\r\n',
    ]
    gemini.will_say(broken, say("The whole answer."))
    assert claude.says("tell me")["result"] == "The whole answer."


def test_a_prompt_that_is_too_long_is_compacted_and_the_session_continues(claude, gemini):
    overflow = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
    told: list[str] = []

    def answer(asked: Asked) -> Any:
        last = json.dumps(asked.body["contents"][-1])
        if "summary" in last and "compacted" not in told and "refused" in told:
            told.append("compacted")
            return say("<summary>All so far.</summary>")
        if len(calls(asked)) >= 3 and "refused" not in told:
            told.append("refused")
            return error(400, "INVALID_ARGUMENT", overflow)
        if "compacted" in told:
            return say("Went on.")
        number = len(calls(asked)) + 1
        step = {"command": f"echo {number}", "description": f"Step {number}"}
        return sse(call("Bash", f"c{number}", **step), finished())

    gemini.will_answer(answer)
    assert claude.says("take many steps")["result"] == "Went on.", told
    assert told == ["refused", "compacted"]


def test_web_search_uses_google_and_returns_its_sources(claude, gemini):
    grounding = {
        "webSearchQueries": ["gemini bridge"],
        "groundingChunks": [{"web": {"uri": "https://example.org/bridge", "title": "A bridge"}}],
    }
    found = text_chunk("Bridges exist.", "STOP")
    found["candidates"][0]["groundingMetadata"] = grounding

    def answer(asked: Asked) -> Any:
        if asked.body.get("tools") == [{"googleSearch": {}}]:
            return sse(found)
        if calls(asked):
            return say("Found a bridge.")
        return sse(call("WebSearch", "c1", query="gemini bridge"), finished())

    gemini.will_answer(answer)
    assert claude.says("search")["result"] == "Found a bridge."
    told = json.dumps(answers(gemini))
    assert "https://example.org/bridge" in told
    assert "Bridges exist." in told


def test_each_request_starts_with_the_bytes_of_the_previous_one(claude, gemini):
    """Check steps of each kind, and a second prompt in the same session."""
    place = claude.project / "poem.txt"
    place.write_text("roses are red\n")
    thought = {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "I think.", "thought": True}]}}]
    }
    gemini.will_say(
        sse(thought, call("Bash", "c1", command="echo 1", description="1"), finished()),
        sse(
            call("Read", "c2", file_path=str(place)),
            call("Bash", "c3", signature=None, command="echo 3", description="3"),
            finished(),
        ),
        sse(
            text_chunk("Now "),
            call("Edit", "c4", file_path=str(place), old_string="red", new_string="blue"),
            finished(),
        ),
        say("Done."),
        sse(call("Bash", "c5", command="echo 5", description="5"), finished()),
        say("Done again."),
    )
    claude.says("one")
    assert claude.says("two", "--continue")["result"] == "Done again."
    bodies = [asked.body for asked in gemini.asked]
    assert len(bodies) == 6
    assert_each_begins_as_the_one_before(bodies)


def test_session_and_subagent_are_in_the_log(claude, gemini, bridge):
    def answer(asked: Asked) -> Any:
        if "Find it." in json.dumps(asked.body["contents"][0]):
            return say("The subagent found it.")
        if calls(asked):
            return say("The subagent is back.")
        task = {"description": "Find", "prompt": "Find it.", "subagent_type": "general-purpose"}
        return sse(call("Agent", "c1", **task), finished())

    gemini.will_answer(answer)
    session = claude.says("send somebody")["session_id"]
    told = bridge.requests(session=session)
    assert any("agent" in line for line in told)
    assert any("agent" not in line for line in told)
    assert len({line["conversation"] for line in told}) == 2


def test_the_binary_is_of_the_installed_version():
    told = subprocess.run([CLAUDE, "--version"], capture_output=True, text=True, timeout=60).stdout
    assert told.startswith(str(installed_version("@anthropic-ai/claude-code")))
