"""The real Codex CLI, driven as `codex exec`, through the bridge against a scripted Gemini."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from codex_catalog_file import write_codex_catalog
from installed import HERE, MODULES, client_environment
from prefixes import assert_each_begins_as_the_one_before
from scripted_gemini import CUT, Asked, Reply, call_chunk, sse, text_chunk

from bridge.connect.clients import CLIENTS, Target

CODEX = MODULES / ".bin" / "codex"
SIGNATURE = "c2lnbmVkLWJ5LWdlbWluaQ=="
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MCP = f"""
[mcp_servers.calc]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(HERE / "calculator_mcp.py"))}]
"""


FREE = "--dangerously-bypass-approvals-and-sandbox"


class Codex:
    """A user with a separate home and project."""

    settings_file = "config.toml"

    def __init__(self, address: str, folder: Path, key: str = "any") -> None:
        self.home, self.project = folder / "home", folder / "project"
        (self.home / ".codex").mkdir(parents=True)
        self.project.mkdir()
        # The documented config.toml of the README, the command and the page.
        self._configuration = CLIENTS["codex"].main.text(Target(address, key, "gemini-3.1-pro-preview"))
        write_codex_catalog(address, self.home)
        self._environment = client_environment(self.home) | {"BRIDGE_KEY": key}

    def says(
        self, prompt: str, *options: str, model: str | None = None, more: str = "", freedom: str = FREE
    ) -> list[dict[str, Any]]:
        (self.home / ".codex" / self.settings_file).write_text(self._configuration + more)
        chosen = ["--model", model] if model else []
        ran = subprocess.run(
            [
                *(CODEX, "exec", "--json", "--skip-git-repo-check", *chosen),
                *(freedom, *options, prompt),
            ],
            cwd=self.project,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert ran.stdout, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


def answer_of(events: list[dict[str, Any]]) -> str | None:
    said = [
        event["item"]["text"]
        for event in events
        if event["type"] == "item.completed" and event["item"]["type"] == "agent_message"
    ]
    return said[-1] if said else None


@pytest.fixture
def codex(bridge, gemini, tmp_path):
    user = Codex(bridge.address, tmp_path)
    gemini.asked.clear()  # the bridge may have requested the model list
    return user


def say(text: str) -> list[bytes]:
    return sse(text_chunk(text, "STOP"))


def call(name: str, call_id: str, /, signature: str | None = SIGNATURE, **args: Any) -> Any:
    return call_chunk(name, args, call_id, signature)


def finished(**usage: int) -> Any:
    return {
        "candidates": [{"finishReason": "STOP", "index": 0}],
        **({"usageMetadata": usage} if usage else {}),
    }


def parts(asked: Asked, kind: str) -> list[dict[str, Any]]:
    return [part for content in asked.body["contents"] for part in content["parts"] if kind in part]


def error(status: int, name: str, message: str, *details: Any) -> Reply:
    envelope = {"error": {"code": status, "status": name, "message": message, "details": list(details)}}
    return Reply([json.dumps(envelope).encode()], status=status)


def test_the_settings_work_as_a_separate_profile(codex, gemini):
    (codex.home / ".codex" / "config.toml").write_text('model = "another"\n')
    codex.settings_file = "bridge.config.toml"
    gemini.will_say(say("Hello from the bridge."))
    assert answer_of(codex.says("say hello", "--profile", "bridge")) == "Hello from the bridge."
    assert "gemini-3.1-pro-preview" in gemini.asked[0].path


def test_plain_text(codex, gemini):
    gemini.will_say(say("Hello from the bridge."))
    events = codex.says("say hello")
    assert answer_of(events) == "Hello from the bridge."
    usage = next(event["usage"] for event in events if event["type"] == "turn.completed")
    assert (usage["input_tokens"], usage["output_tokens"]) == (5, 2)
    declared = {each["name"] for each in gemini.asked[0].body["tools"][0]["functionDeclarations"]}
    assert "exec_command" in declared
    assert len(gemini.asked) == 1


def test_the_shell_runs_and_its_result_comes_back_with_the_signature(codex, gemini):
    gemini.will_say(
        sse(call("exec_command", "c1", cmd="echo bridge-$((6*7))"), finished()), say("It printed it.")
    )
    assert answer_of(codex.says("compute")) == "It printed it."
    last = gemini.asked[-1]
    assert "bridge-42" in str(parts(last, "functionResponse"))
    assert parts(last, "functionCall")[0]["thoughtSignature"] == SIGNATURE


def test_parallel_calls_are_answered_in_the_order_of_the_calls(codex, gemini):
    several = [
        call(
            "exec_command",
            f"c{number}",
            signature=SIGNATURE if number == 1 else None,
            cmd=f"echo result-{number}",
        )
        for number in range(1, 5)
    ]
    gemini.will_say(sse(*several, finished()), say("All four."))
    assert answer_of(codex.says("four at once")) == "All four."
    told = [json.dumps(part) for part in parts(gemini.asked[-1], "functionResponse")]
    assert len(told) == 4
    assert all(f"result-{number}" in told[number - 1] for number in range(1, 5))


def test_a_freeform_patch_really_changes_a_file(codex, gemini):
    (codex.project / "poem.txt").write_text("roses are red\n")
    patch = "*** Begin Patch\n*** Update File: poem.txt\n@@\n-roses are red\n+roses are blue\n*** End Patch\n"
    gemini.will_say(sse(call("apply_patch", "c1", input=patch), finished()), say("Patched."))
    assert answer_of(codex.says("patch it", model="gpt-5.5")) == "Patched."
    assert (codex.project / "poem.txt").read_text() == "roses are blue\n"
    declared = gemini.asked[0].body["tools"][0]["functionDeclarations"]
    grammar = next(each["description"] for each in declared if each["name"] == "apply_patch")
    assert "Begin Patch" in grammar


def test_an_mcp_tool_is_called_by_server_name_and_tool_name(codex, gemini):
    def answer(asked: Asked) -> Any:
        declared = [each["name"] for each in asked.body["tools"][0]["functionDeclarations"]]
        if parts(asked, "functionCall"):
            return say("The sum is five.")
        name = next(name for name in declared if name.endswith("add_numbers"))
        return sse(call(name, "c1", a=2, b=3), finished())

    gemini.will_answer(answer)
    assert answer_of(codex.says("add", more=MCP)) == "The sum is five."
    assert "sum=5" in str(parts(gemini.asked[-1], "functionResponse"))


def test_an_image_is_viewed_and_shown_to_gemini(codex, gemini):
    (codex.project / "dot.png").write_bytes(PNG)
    gemini.will_say(
        sse(call("view_image", "c1", path=str(codex.project / "dot.png")), finished()), say("A dot.")
    )
    assert answer_of(codex.says("look")) == "A dot."
    response = parts(gemini.asked[-1], "functionResponse")[0]["functionResponse"]
    assert response["parts"][0]["inlineData"]["mimeType"] == "image/png"


def test_the_plan_is_updated(codex, gemini):
    plan = [{"step": "Think", "status": "completed"}, {"step": "Do", "status": "in_progress"}]
    gemini.will_say(sse(call("update_plan", "c1", plan=plan), finished()), say("Planned."))
    events = codex.says("plan", more="\n[tools.update_plan]\nenabled = true\n")
    assert answer_of(events) == "Planned."
    listed = [event["item"] for event in events if event.get("item", {}).get("type") == "todo_list"]
    assert [entry["text"] for entry in listed[-1]["items"]] == ["Think", "Do"]


def test_reasoning_is_carried_into_the_next_request_with_its_signature(codex, gemini):
    thought = {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "I think.", "thought": True}]}}]
    }
    gemini.will_say(
        sse(thought, call("exec_command", "c1", cmd="true"), finished()),
        sse(call("exec_command", "c2", signature="c2Vjb25k", cmd="true"), finished()),
        say("Thought through."),
    )
    assert answer_of(codex.says("think")) == "Thought through."
    last = gemini.asked[-1]
    assert {"text": "I think.", "thought": True} in parts(last, "text")
    assert [part["thoughtSignature"] for part in parts(last, "functionCall")] == [SIGNATURE, "c2Vjb25k"]


def test_a_long_conversation_is_compacted_and_continues(codex, gemini):
    told: list[str] = []

    def answer(asked: Asked) -> Any:
        last = json.dumps(asked.body["contents"][-1])
        if "CHECKPOINT" in last:
            told.append("compacted")
            return say("Summary of all so far.")
        if told or parts(asked, "functionCall"):
            told.append("went on")
            return say("Went on.")
        usage = {"promptTokenCount": 990_000, "candidatesTokenCount": 10, "totalTokenCount": 990_010}
        return sse(call("exec_command", "c1", cmd="true"), finished(**usage))

    gemini.will_answer(answer)
    assert answer_of(codex.says("take long")) == "Went on."
    assert told == ["compacted", "went on"]
    assert any("Summary of all so far." in json.dumps(asked.body["contents"]) for asked in gemini.asked)


def test_the_client_retries_after_a_rate_limit(codex, gemini):
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.5s"}
    gemini.will_say(error(429, "RESOURCE_EXHAUSTED", "Slow down.", wait), say("Made it."))
    assert answer_of(codex.says("hurry")) == "Made it."
    assert len(gemini.asked) == 2


def test_a_context_overflow_is_fatal_and_not_retried(codex, gemini):
    overflow = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
    gemini.will_answer(lambda _: error(400, "INVALID_ARGUMENT", overflow))
    events = codex.says("too much")
    assert any(event["type"] == "turn.failed" for event in events)
    assert len(gemini.asked) == 1


def test_a_wrong_upstream_key_is_reported_once_with_a_clear_message(codex, gemini):
    gemini.will_answer(lambda _: error(403, "PERMISSION_DENIED", "No."))
    failed = next(event for event in codex.says("try") if event["type"] == "turn.failed")
    assert "administrator" in failed["error"]["message"]
    assert len(gemini.asked) == 1


def test_a_safety_stop_is_not_retried(codex, gemini):
    gemini.will_answer(lambda _: sse({"candidates": [{"finishReason": "SAFETY", "index": 0}]}))
    failed = next(event for event in codex.says("be bad") if event["type"] == "turn.failed")
    assert "filter" in failed["error"]["message"]
    assert len(gemini.asked) == 1


def test_a_truncated_stream_is_retried_and_not_accepted_as_an_answer(codex, gemini):
    gemini.will_say([*sse(text_chunk("Half an ans")), CUT], say("The whole answer."))
    assert answer_of(codex.says("tell me")) == "The whole answer."


def test_each_request_starts_with_the_bytes_of_the_previous_one(codex, gemini, bridge):
    """Check steps of each kind, and a second prompt, before which Codex adds new permissions."""
    thought = {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "I think.", "thought": True}]}}]
    }
    gemini.will_say(
        sse(thought, call("exec_command", "c1", cmd="echo 1"), finished()),
        sse(
            call("exec_command", "c2", cmd="echo 2"),
            call("exec_command", "c3", signature=None, cmd="echo 3"),
            finished(),
        ),
        sse(text_chunk("Now "), call("exec_command", "c4", cmd="echo 4"), finished()),
        say("Done."),
        say("Done again."),
    )
    thread = next(event["thread_id"] for event in codex.says("one") if event["type"] == "thread.started")
    assert answer_of(codex.says("two", "resume", "--last", freedom="--sandbox=read-only")) == "Done again."
    bodies = [asked.body for asked in gemini.asked]
    assert len(bodies) == 5
    assert "<system-reminder>\n<permissions instructions>" in bodies[-1]["contents"][-1]["parts"][0]["text"]
    assert_each_begins_as_the_one_before(bodies)
    assert len({line["conversation"] for line in bridge.requests(session=thread)}) == 1


def test_a_websocket_request_is_refused_immediately(bridge):
    headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
    assert requests.get(f"{bridge.address}/v1/responses", headers=headers, timeout=10).status_code == 426
