"""`gemini-bridge context explain`: what would be sent, for requests of every protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from counting_gemini import MODEL, config_with_window
from growing_clients import ClaudeCode, Codex, GeminiCli, Interactions, PlainChat

from bridge.cli import main
from bridge.exchange import context_explanation
from bridge.exchange.context_fitting import ContextFitting

WINDOW = 5000


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = config_with_window(tmp_path / "config", WINDOW)
    monkeypatch.setenv("BRIDGE_CONFIG_DIR", str(folder))
    monkeypatch.setenv("BRIDGE_CONTEXT__PROTECTED_TOKENS", "500")
    return folder


@pytest.fixture
def explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def run(body: Any, *options: str, code: int = 0) -> Any:
        file = tmp_path / "request.json"
        file.write_text(body if isinstance(body, str) else json.dumps(body))
        assert main(["context", "explain", str(file), *options]) == code
        out, err = capsys.readouterr()
        return json.loads(out) if "--json" in options and out else out or err

    return run


def long_chat(rounds: int = 40) -> dict[str, Any]:
    messages: list[Any] = [{"role": "user", "content": "Find it."}]
    for number in range(rounds):
        function = {"name": "run", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "a line of output; " * 40})
    return {"model": MODEL, "messages": messages}


def by_name(explanation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in explanation["steps"]}


def test_each_step_has_its_tokens_and_the_first_turn_that_it_changes(explained):
    explanation = explained(long_chat(), "--json")
    steps = by_name(explanation)
    assert (explanation["protocol"], explanation["window"], explanation["error"]) == (
        "openai_chat",
        WINDOW,
        None,
    )
    masked = steps["old_results"]
    assert (masked["state"], masked["first"]) == ("applied", 3)
    assert masked["before"] == explanation["tokens"] > WINDOW > masked["after"]
    assert masked["changes"] > 20
    assert steps["clear_tool_uses"]["state"] == "not asked for"
    assert steps["strict_history"]["state"] == "off"
    assert steps["old_thoughts"]["state"] == "nothing to do"
    assert steps["leading_turns"]["state"] == "not needed"
    befores = [step["before"] for step in explanation["steps"]]
    assert befores[1:] == [step["after"] for step in explanation["steps"]][:-1]


def test_the_terminal_gets_the_same_as_a_table(explained):
    table = explained(long_chat())
    assert "window    5,000 tokens\n" in table
    assert "compress  'off'; shown as if it were 'all'\n" in table
    (row,) = [line.split() for line in table.splitlines() if line.startswith("old_results")]
    masked = by_name(explained(long_chat(), "--json"))["old_results"]
    assert row[1:] == ["applied", *(f"{masked[name]:,}" for name in ("changes", "before", "after", "first"))]
    assert max(map(len, table.splitlines())) < 100


def test_what_the_client_asks_for_is_explained_too(explained):
    messages: list[Any] = [{"role": "user", "content": "Find it."}]
    for number in range(12):
        call = {"type": "tool_use", "id": f"t{number}", "name": "run", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "found " * 30}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 5}}
    body = {"model": MODEL, "max_tokens": 9, "messages": messages, "context_management": {"edits": [edit]}}
    explanation = explained(body, "--json")
    cleared = by_name(explanation)["clear_tool_uses"]
    assert (explanation["protocol"], cleared["state"], cleared["first"]) == (
        "anthropic_messages",
        "applied",
        3,
    )
    assert cleared["after"] < cleared["before"]


def test_a_request_that_cannot_fit_ends_with_the_error(explained):
    body = {"model": MODEL, "messages": [{"role": "user", "content": "much " * 10_000}]}
    assert "The request would fail: The input token count" in explained(body, code=1)
    assert "exceeds" in explained(body, "--json", code=1)["error"]


@pytest.mark.parametrize("kind", [PlainChat, Codex, ClaudeCode, GeminiCli, Interactions])
def test_the_protocol_is_found_by_the_fields(explained, kind, monkeypatch):
    client = kind("", MODEL)
    client.user_says("Hello.")
    names = {"/v1/chat/completions": "openai_chat", "/v1/responses": "openai_responses"}
    names |= {"/v1/messages": "anthropic_messages", "/v1beta/interactions": "gemini_interactions"}
    expected = names.get(client._path(), "gemini_native")
    options = ("--model", MODEL, "--json")
    assert explained(client._body(), *options)["protocol"] == expected
    assert explained(client._body(), "--protocol", expected, *options)["model"] == MODEL


def test_the_model_can_be_another(explained):
    explanation = explained(long_chat(), "--model", "gemini-3.8-flash", "--json")
    assert explanation["window"] > 1_000_000
    assert by_name(explanation)["old_results"]["state"] == "not needed"


@pytest.mark.parametrize(
    ("body", "options", "code", "words"),
    [
        ("{", (), 2, "is not JSON"),
        ("[]", (), 2, "must hold a JSON object"),
        ({"model": "m"}, (), 1, "neither messages, input, contents nor prompt"),
        ({"messages": "all"}, (), 1, "messages"),
        ({"messages": [{"role": "user"}]}, ("--protocol", "morse"), 1, "There is no protocol 'morse'"),
    ],
)
def test_a_wrong_file_is_an_error_in_words(explained, body, options, code, words):
    assert words in explained(body, *options, code=code)


def test_a_missing_file_is_an_error_in_words(capsys):
    assert main(["context", "explain", "/nowhere/request.json"]) == 2
    assert "/nowhere/request.json cannot be read" in capsys.readouterr().err


def test_the_explanation_is_made_by_the_code_of_the_request(explained, monkeypatch):
    asked = []

    class Watched(ContextFitting):
        def fitted(self, request, *others):
            asked.append(request)
            return super().fitted(request, *others)

    monkeypatch.setattr(context_explanation, "ContextFitting", Watched)
    explained(long_chat())
    assert len(asked) == 1
