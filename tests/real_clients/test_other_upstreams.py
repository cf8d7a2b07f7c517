"""The real Claude Code and Codex over an upstream of the kind `openai`, and with tools in text.

The scripted model runs a command in the client's shell, and then repeats what the command printed.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import scripted_chat as chat
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge
from scripted_gemini import Asked, ScriptedGemini, sse, text_chunk
from test_claude_code import Claude
from test_codex import Codex, answer_of

DECLARED, CHAT_TEXT, GEMINI_TEXT = "qwen-declared", "qwen-text", "gemini-in-text"
KEY = "AIzaCanary0000000000000000000000text"
ROWS = """
[[upstream]]
name = "declared"
kind = "openai"
dialect = "vllm"
base_url = "{address}/v1"
models = ["qwen-declared"]

[[upstream]]
name = "chat-text"
kind = "openai"
dialect = "llamacpp"
base_url = "{address}/v1"
models = ["qwen-text"]
tools = "text"
parameter_map.Bash = {{ script = "command" }}
parameter_map.exec_command = {{ script = "cmd" }}
parameter_map.shell_command = {{ script = "command" }}

[[upstream]]
name = "gemini-text"
kind = "gemini"
base_url = "{address}"
api_key = "env:TEXT_KEY"
models = ["gemini-in-text"]
tools = "text"
think = "show"
"""
COMMAND, RESULT = "echo bridge-$((6*7))", r"bridge-\d+"
#: The clients' shells, each with the argument that holds the command.
SHELLS = {"Bash": "command", "exec_command": "cmd", "shell_command": "command"}
#: The same for a model that uses another name, which the row maps.
OTHER_SPELLINGS = dict.fromkeys(SHELLS, "script")


@dataclass
class Model:
    """What the scripted model found in its requests."""

    api: ScriptedGemini
    bridge: Bridge

    def bodies(self) -> list[Any]:
        return [asked.body for asked in self.api.asked if asked.method == "POST"]


@pytest.fixture(scope="module")
def _model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    api, config = ScriptedGemini(), tmp_path_factory.mktemp("upstreams") / "config"
    shutil.copytree(ROOT / "config", config, ignore=shutil.ignore_patterns("local.toml"))
    (config / "upstreams.toml").write_text(ROWS.format(address=api.address))
    with gunicorn_bridge(
        BRIDGE_CONFIG_DIR=str(config),
        GEMINI_API_KEY=KEY,
        TEXT_KEY=KEY,
        GOOGLE_GEMINI_BASE_URL=api.address,
        NO_PROXY="127.0.0.1",
    ) as bridge:
        yield Model(api, bridge)
    api.close()


@pytest.fixture
def model(_model: Model) -> Model:
    _model.api.forget()
    _model.api.will_answer(answer)
    return _model


def answer(asked: Asked) -> list[bytes]:
    if asked.body is None or asked.path.endswith("/models"):
        return [b"{}"]
    if "messages" not in asked.body:
        said = written(texts_of(asked.body), SHELLS)
        return sse(*map(text_chunk, in_pieces(said)), text_chunk("", "STOP"))
    if "tools" in asked.body:
        return [declared_answer(asked.body)]
    said = written(json.dumps(asked.body["messages"], ensure_ascii=False), OTHER_SPELLINGS)
    return [chat.sse(*map(chat.text, in_pieces(said)), chat.end("stop"), chat.counted())]


def in_pieces(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def texts_of(body: Any) -> str:
    return json.dumps([body.get("systemInstruction"), body["contents"]], ensure_ascii=False)


def declared_answer(body: Any) -> bytes:
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    if results:
        return chat.sse(chat.text(result_in(results[-1])), chat.end("stop"), chat.counted())
    named = {tool["function"]["name"] for tool in body["tools"]}
    shell = next((name for name in SHELLS if name in named), None)
    if shell is None:  # a request beside the conversation, such as one for a title
        return chat.sse(chat.text("A title"), chat.end("stop"), chat.counted())
    arguments = json.dumps({SHELLS[shell]: COMMAND, **described(shell)})
    return chat.sse(
        chat.choice({"role": "assistant", "reasoning": "I think."}),
        chat.calls(chat.piece(shell, "", index=0, id="call_1", type="function")),
        *(chat.calls(chat.piece(None, each, index=0)) for each in in_pieces(arguments)),
        chat.end(),
        chat.counted(),
    )


def written(request: str, shells: Mapping[str, str]) -> str:
    """The answer of a model that writes its calls as text; `request` is JSON."""
    if re.search(RESULT, request):
        return result_in(request)
    shell = next((name for name in SHELLS if f'\\"name\\":\\"{name}\\"' in request), None)
    if shell is None:
        return "A title"
    call = {"name": shell, "arguments": {shells[shell]: COMMAND, **described(shell)}}
    return f"<think>I think.</think>I look.\n<tool_call>\n{json.dumps(call)}\n</tool_call>"


def described(shell: str) -> dict[str, str]:
    return {"description": "Compute"} if shell == "Bash" else {}


def result_in(text: str) -> str:
    found = re.search(RESULT, text)
    return f"It printed {found[0] if found else 'nothing'}."


each_model = pytest.mark.parametrize("name", [DECLARED, CHAT_TEXT, GEMINI_TEXT])


def check(model: Model, name: str) -> None:
    last = json.dumps(model.bodies()[-1])
    if name == DECLARED:
        assert '"role": "tool"' in last
        assert '"reasoning": ' in last
    else:
        assert '"tools"' not in last
        assert re.search(r"<tool_response>[^<]*bridge-42", last)
    assert {line["upstream"] for line in model.bridge.requests(model=name)} == {
        {DECLARED: "declared", CHAT_TEXT: "chat-text", GEMINI_TEXT: "gemini-text"}[name]
    }


@each_model
def test_claude_code_runs_a_command(model: Model, tmp_path: Path, name: str) -> None:
    told = Claude(model.bridge.address, tmp_path).says("compute", model=name)
    assert told["result"] == "It printed bridge-42."
    check(model, name)


@each_model
def test_codex_runs_a_command(model: Model, tmp_path: Path, name: str) -> None:
    events = Codex(model.bridge.address, tmp_path).says("compute", model=name)
    assert answer_of(events) == "It printed bridge-42."
    check(model, name)
