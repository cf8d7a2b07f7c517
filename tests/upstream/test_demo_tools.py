"""The demo model's tool calls, their arguments, and its use of the results."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from demo_model import SHELL, TOOLS, WEATHER, answered, calls, finishes, said, text, wire

from bridge.upstream.demo.argument_hints import WRITTEN_PATH


def call_config(mode: str, *allowed: str) -> dict[str, Any]:
    return {"functionCallingConfig": {"mode": mode, "allowedFunctionNames": list(allowed)}}


@pytest.mark.parametrize(
    ("asked", "fields", "called"),
    [
        ("What is the weather?", {}, []),
        ("Call get_weather", {}, ["get_weather"]),
        ("use the shell", {}, ["shell"]),
        ("a shell is a fine thing", {}, []),
        ("Use a tool", {}, ["shell"]),
        ("Use two tools", {}, ["shell", "get_weather"]),
        ("run `shell` and get_weather", {}, ["get_weather", "shell"]),
        ("call shell twice, in parallel", {"tools": [{"functionDeclarations": [SHELL]}]}, ["shell", "shell"]),
        ("Hi", {"toolConfig": call_config("ANY")}, ["shell"]),
        ("Hi", {"toolConfig": call_config("ANY", "get_weather")}, ["get_weather"]),
        ("Call get_weather", {"toolConfig": call_config("NONE")}, []),
        ("echo: use a tool", {}, []),
        ("Use a tool", {"tools": []}, []),
    ],
)
def test_tools_are_called_when_the_prompt_requests_them(
    asked: str, fields: dict[str, Any], called: list[str]
) -> None:
    chunks = wire(said(asked, **{"tools": TOOLS, **fields}))
    assert [call["name"] for call in calls(chunks)] == called
    assert finishes(chunks) == ["STOP"]


def test_parallel_calls_come_one_per_chunk_and_only_the_first_is_signed() -> None:
    chunks = wire(said("Hi", tools=TOOLS), "demo-parallel")
    with_calls = [chunk["candidates"][0]["content"]["parts"] for chunk in chunks[:-1]]
    assert [len(each) for each in with_calls] == [1, 1]
    assert ["thoughtSignature" in each[0] for each in with_calls] == [True, False]
    assert base64.b64decode(with_calls[0][0]["thoughtSignature"], validate=True)


def test_arguments_satisfy_the_schema_and_come_from_the_prompt() -> None:
    for declaration in (WEATHER, {"name": "get_weather", "parameters": WEATHER["parametersJsonSchema"]}):
        body = said('get_weather for "New York", 5 days', tools=[{"functionDeclarations": [declaration]}])
        assert calls(wire(body)) == [{"name": "get_weather", "args": {"city": "New York", "days": 5}}]


def test_arguments_without_a_hint_are_sampled() -> None:
    assert calls(wire(said("Call get_weather", tools=TOOLS)))[0]["args"] == {"city": "Paris", "days": 2}


@pytest.mark.parametrize(
    ("name", "schema", "arguments"),
    [
        ("run", {"properties": {"cmd": {"type": "string"}}}, {"cmd": "echo hello"}),
        ("run", SHELL["parametersJsonSchema"], {"command": ["echo", "hello"]}),
        ("read_file", {"properties": {"path": {"type": "string"}}}, {"path": "README.md"}),
        ("Read", {"properties": {"filePath": {"type": "string"}}}, {"filePath": "README.md"}),
        ("list", {"properties": {"dir_path": {"type": "string"}}}, {"dir_path": "."}),
        ("delete_file", {"properties": {"path": {"type": "string"}}}, {"path": WRITTEN_PATH}),
        (
            "put",
            {"properties": {"file": {}, "content": {"const": "x"}}},
            {"file": WRITTEN_PATH, "content": "x"},
        ),
        ("noop", None, {}),
    ],
)
def test_sampled_shell_commands_are_harmless(name: str, schema: Any, arguments: dict[str, Any]) -> None:
    declaration = {"name": name} | ({"parametersJsonSchema": schema} if schema else {})
    body = said('"rm -rf /" now', tools=[{"functionDeclarations": [declaration]}])
    assert calls(wire(body, "demo-tool")) == [{"name": name, "args": arguments}]


@pytest.mark.parametrize("model", ["demo", "demo-tool", "demo-parallel"])
def test_tool_results_are_summarised(model: str) -> None:
    body = answered([{"functionCall": {"name": "get_weather", "args": {}}}] * 2)
    body["contents"][-1]["parts"][0]["functionResponse"]["response"] = {"sky": "x" * 500}
    answer = text(wire(body, model))
    assert '`get_weather` returned {"sky":"xxx' in answer
    assert '`get_weather` returned {"output":"fine"}' in answer
    assert len(answer) < 400


@pytest.mark.parametrize("model", ["demo-tool", "demo-parallel"])
def test_without_tools_the_answer_explains_that(model: str) -> None:
    assert "declares none" in text(wire(said("Hi"), model))
