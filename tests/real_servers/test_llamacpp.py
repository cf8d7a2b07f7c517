"""The real server of llama.cpp, with a tiny model, as an upstream of the real bridge.

The model writes random letters, so the tests compare what the bridge gives with what the server counts and
what its grammar allows.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
import requests
from gunicorn_bridge import ROOT, Bridge, clean_environment, free_port, gunicorn_bridge, serves
from waiting import eventually

HERE = Path(__file__).parent
PYTHON = HERE / "installed" / "bin" / "python"
MODEL = "tiny-random"
WINDOW = 8192  #: of each of the answers that the server writes at once
ROWS = """
[[upstream]]
name = "cellar"
kind = "openai"
dialect = "llamacpp"
base_url = "{address}/v1"
models = ["tiny-*", "*"]

[[upstream]]
name = "in-text"
kind = "openai"
dialect = "llamacpp"
base_url = "{address}/v1"
tools = "text"
"""
PARAMETERS = {
    "type": "object",
    "properties": {"at": {"enum": ["/tmp", "/etc"]}, "deep": {"type": "boolean"}},
    "required": ["at", "deep"],
}
#: A schema that keeps the model writing.
LONG = {
    "type": "object",
    "properties": {"all": {"type": "array", "items": {"enum": ["abcdefgh"]}, "minItems": 700}},
    "required": ["all"],
}
HELLO = [{"role": "user", "content": "Hello"}]


@dataclass
class Server:
    address: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def busy(self) -> bool:
        slots = requests.get(f"{self.address}/slots", timeout=30).json()
        return any(slot["is_processing"] for slot in slots)


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    assert PYTHON.exists(), "run `make test-servers`, which installs the server"
    model, log, port = folder / "tiny.gguf", folder / "server.log", free_port()
    subprocess.run([PYTHON, HERE / "tiny_model.py", model], check=True, timeout=100)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [PYTHON, HERE / "llamacpp.py", model, str(port)], stdout=output, stderr=output
        )
    address = f"http://127.0.0.1:{port}"
    try:
        assert eventually(lambda: serves(f"{address}/health"), 60), log.read_text()
        yield Server(address, process, log)
    finally:
        process.kill()
        process.wait(60)


@contextmanager
def bridge_over(server: Server, folder: Path) -> Iterator[tuple[Bridge, dict[str, str]]]:
    config = folder / "config"
    shutil.copytree(ROOT / "config", config, ignore=shutil.ignore_patterns("local.toml"))
    (config / "upstreams.toml").write_text(ROWS.format(address=server.address))
    environ = {"BRIDGE_CONFIG_DIR": str(config), "BRIDGE_UPSTREAM__ATTEMPTS": "1", "NO_PROXY": "127.0.0.1"}
    with gunicorn_bridge(**environ) as bridge:
        yield bridge, environ


@dataclass
class Served:
    server: Server
    bridge: Bridge
    environ: dict[str, str]

    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.bridge.address}/v1", api_key="any", max_retries=0)

    def anthropic(self) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=self.bridge.address, api_key="any", max_retries=0)

    def post(self, path: str, body: Any, **options: Any) -> requests.Response:
        return requests.post(f"{self.bridge.address}{path}", json=body, timeout=60, **options)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("real")
    with running_server(folder) as server, bridge_over(server, folder) as (bridge, environ):
        yield Served(server, bridge, environ)


each_seed = pytest.mark.parametrize("seed", range(3))


@each_seed
@pytest.mark.parametrize("model", [MODEL, f"in-text:{MODEL}"])
def test_the_text_is_the_servers(served: Served, model: str, seed: int) -> None:
    """With the same seed the server writes the same text; marks of calls without tools are text."""
    asked: dict[str, Any] = {"messages": HELLO, "seed": seed, "max_tokens": 200}
    own = requests.post(f"{served.server.address}/v1/chat/completions", json=asked, timeout=60).json()
    client = served.openai()
    whole = client.chat.completions.create(model=model, **asked)
    choice, said = whole.choices[0], own["choices"][0]
    assert (choice.message.content, choice.finish_reason) == (
        said["message"]["content"],
        said["finish_reason"],
    )
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == own["usage"]["prompt_tokens"]
    assert whole.usage.completion_tokens == own["usage"]["completion_tokens"]
    pieces = list(client.chat.completions.create(model=model, stream=True, **asked))
    deltas = [piece.choices[0].delta.content for piece in pieces if piece.choices]
    assert "".join(filter(None, deltas)) == choice.message.content
    assert len(list(filter(None, deltas))) > 3


CHAT_TOOL: Any = {"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}


def check_call(name: str, arguments: Any) -> None:
    assert name == "look"
    assert arguments["at"] in ("/tmp", "/etc")
    assert isinstance(arguments["deep"], bool)


@each_seed
@pytest.mark.parametrize("stream", [False, True])
def test_calls_in_chat_completions_over_two_turns(served: Served, seed: int, *, stream: bool) -> None:
    client = served.openai()
    asked: dict[str, Any] = {"model": MODEL, "tools": [CHAT_TOOL], "tool_choice": "required", "seed": seed}
    if stream:
        with client.chat.completions.stream(messages=HELLO, **asked) as events:  # type: ignore[arg-type]
            choice: Any = events.get_final_completion().choices[0]
    else:
        choice = client.chat.completions.create(messages=HELLO, **asked).choices[0]
    assert choice.finish_reason == "tool_calls"
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in choice.message.tool_calls
    ]
    for call in calls:
        check_call(call["function"]["name"], json.loads(call["function"]["arguments"]))
    history = [
        *HELLO,
        {"role": "assistant", "content": choice.message.content, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": call["id"], "content": "a wall"} for call in calls),
    ]
    told = client.chat.completions.create(**{**asked, "messages": history, "tool_choice": "auto"})
    assert told.usage is not None
    assert told.usage.prompt_tokens > 100


@pytest.mark.parametrize("stream", [False, True])
def test_calls_in_messages(served: Served, *, stream: bool) -> None:
    asked: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 1000,
        "messages": HELLO,
        "tools": [{"name": "look", "input_schema": PARAMETERS}],
        "tool_choice": {"type": "any"},
    }
    client = served.anthropic()
    if stream:
        with client.messages.stream(**asked) as events:
            said = events.get_final_message()
    else:
        said = client.messages.create(**asked)
    calls = [block for block in said.content if block.type == "tool_use"]
    assert calls
    for call in calls:
        check_call(call.name, call.input)
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "a wall"} for call in calls]
    blocks = [block.model_dump(exclude_none=True) for block in said.content]
    history = [*HELLO, {"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
    told = client.messages.create(**{**asked, "messages": history, "tool_choice": {"type": "auto"}})
    assert told.usage.input_tokens > said.usage.input_tokens


def test_calls_in_responses(served: Served) -> None:
    tool: Any = {"type": "function", "name": "look", "parameters": PARAMETERS, "strict": False}
    asked: dict[str, Any] = {"model": MODEL, "tools": [tool]}
    client = served.openai()
    with client.responses.stream(input="Hello", tool_choice="required", **asked) as events:
        said = events.get_final_response()
    calls = [item for item in said.output if item.type == "function_call"]
    assert calls
    for call in calls:
        check_call(call.name, json.loads(call.arguments))
    results: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "a wall"} for call in calls
    ]
    told = client.responses.create(previous_response_id=said.id, input=results, **asked)
    assert told.usage is not None
    assert said.usage is not None
    assert told.usage.input_tokens > said.usage.input_tokens


def test_calls_in_the_native_protocol(served: Served) -> None:
    body = {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "tools": [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": PARAMETERS}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    }
    said = served.post(f"/v1beta/models/{MODEL}:generateContent", body).json()
    calls = [
        part["functionCall"] for part in said["candidates"][0]["content"]["parts"] if "functionCall" in part
    ]
    assert calls
    for call in calls:
        check_call(call["name"], call["args"])


@each_seed
def test_tools_in_text_reach_the_server_as_text(served: Served, seed: int) -> None:
    """The random model writes no whole call; what it writes stays text."""
    asked: dict[str, Any] = {"messages": HELLO, "tools": [CHAT_TOOL], "seed": seed, "max_tokens": 200}
    client = served.openai()
    plain = client.chat.completions.create(model=f"in-text:{MODEL}", messages=HELLO, max_tokens=1)  # type: ignore[arg-type]
    told = client.chat.completions.create(model=f"in-text:{MODEL}", **asked)
    assert plain.usage is not None
    assert told.usage is not None
    assert told.usage.prompt_tokens > plain.usage.prompt_tokens + 100
    assert told.choices[0].message.content
    assert not told.choices[0].message.tool_calls


@pytest.mark.parametrize("tools", [[], [{"name": "look", "input_schema": PARAMETERS}]])
def test_a_token_count_is_what_the_server_bills(served: Served, tools: list[Any]) -> None:
    body = {"model": MODEL, "messages": HELLO, "system": "Be brief.", "tools": tools}
    counted = served.post("/v1/messages/count_tokens", body).json()["input_tokens"]
    usage = served.post("/v1/messages", {**body, "max_tokens": 1}).json()["usage"]
    assert counted == usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)


@pytest.mark.parametrize("model", [MODEL, f"in-text:{MODEL}"])
def test_json_answers_follow_the_schema(served: Served, model: str) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": PARAMETERS}}
    said = served.openai().chat.completions.create(model=model, messages=HELLO, response_format=form)  # type: ignore[call-overload]
    check_call("look", json.loads(said.choices[0].message.content))


def test_the_token_limit_never_gives_half_a_call(served: Served) -> None:
    for limit in range(1, 120, 7):
        asked: dict[str, Any] = {"max_tokens": limit, "tools": [CHAT_TOOL], "tool_choice": "required"}
        said = served.openai().chat.completions.create(model=MODEL, messages=HELLO, seed=1, **asked)  # type: ignore[call-overload]
        choice = said.choices[0]
        assert said.usage.completion_tokens <= limit
        assert choice.finish_reason in ("length", "tool_calls")
        for call in choice.message.tool_calls or []:
            check_call(call.function.name, json.loads(call.function.arguments))


def test_a_prompt_that_is_too_long_gives_the_servers_numbers(served: Served) -> None:
    long = [{"role": "user", "content": "a" * (WINDOW + 100)}]
    refused = served.post("/v1/chat/completions", {"model": MODEL, "messages": long})
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert str(WINDOW) in error["message"]


def test_the_list_has_the_servers_model(served: Served) -> None:
    listed = requests.get(f"{served.bridge.address}/v1beta/models/{MODEL}", timeout=30).json()
    assert listed["inputTokenLimit"] == WINDOW
    words = ["upstream", "test", "cellar", "--json"]
    said = subprocess.run(
        [sys.executable, "-c", "import sys; from bridge.cli import main; sys.exit(main())", *words],
        cwd=ROOT,
        env=clean_environment() | served.environ | {"BRIDGE_STATE_DIR": str(served.bridge.state)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert said.returncode == 0, said.stderr
    assert MODEL in said.stdout


def long_answer(**more: Any) -> dict[str, Any]:
    form = {"type": "json_schema", "json_schema": {"name": "long", "schema": LONG}}
    return {"model": MODEL, "messages": HELLO, "response_format": form, "stream": True, **more}


def test_a_client_that_leaves_ends_the_servers_work(served: Served) -> None:
    with served.post("/v1/chat/completions", long_answer(), stream=True) as answer:
        next(answer.iter_content(200))
        assert served.server.busy
    left = time.monotonic()
    assert eventually(lambda: not served.server.busy, 20)
    assert time.monotonic() - left < 5
    assert "cancel task" in served.server.log.read_text()


ENDINGS: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat": ("/v1/chat/completions", long_answer(), '"error"'),
    "responses": (
        "/v1/responses",
        {
            "model": MODEL,
            "input": "Hello",
            "stream": True,
            "text": {"format": {"type": "json_schema", "name": "long", "schema": LONG}},
        },
        "event: response.failed",
    ),
    "messages": (
        "/v1/messages",
        {
            "model": MODEL,
            "messages": HELLO,
            "max_tokens": 8000,
            "stream": True,
            "output_config": {"format": {"type": "json_schema", "schema": LONG}},
        },
        "event: error",
    ),
    "native": (
        f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse",
        {
            "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
            "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": LONG},
        },
        '"error"',
    ),
}


def test_streams_end_with_an_error_when_the_server_dies(tmp_path: Path) -> None:
    said = dict.fromkeys(ENDINGS, "")
    begun = {name: threading.Event() for name in ENDINGS}

    def read(address: str, name: str) -> None:
        path, body, _ = ENDINGS[name]
        with requests.post(f"{address}{path}", json=body, stream=True, timeout=60) as answer:
            for piece in answer.iter_content(None):
                said[name] += piece.decode()
                if "abcdefgh" in said[name] or len(said[name]) > 3000:
                    begun[name].set()

    with running_server(tmp_path) as server, bridge_over(server, tmp_path) as (bridge, _):
        readers = [threading.Thread(target=read, args=(bridge.address, name)) for name in ENDINGS]
        for reader in readers:
            reader.start()
        for name, event in begun.items():
            assert event.wait(30), said[name]
        server.process.kill()
        for reader in readers:
            reader.join(30)
    for name, (_, _, ending) in ENDINGS.items():
        assert ending in said[name], said[name][-1500:]
