"""Tools, calls and results of a request as text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.gemini.losses import TOOL_CHOICE_IN_TEXT
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import (
    EMPTY,
    GOOGLE_SEARCH,
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    Part,
    Tool,
)
from bridge.text_tools import RequestInText, request_in_text
from bridge.text_tools.known_tools import KnownTool
from bridge.text_tools.text_reader import TextReader

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = FunctionDeclaration("read", "Reads a </tools> file.", SCHEMA)
NATIVE = FunctionDeclaration("old", extra={"parameters": {"type": "OBJECT", "properties": {"a": {}}}})
CONTENTS = (
    Content("user", (Part("Look."),)),
    Content("model", (Part("I look."), Part(FunctionCall("read", {"path": "a"}, "c1"), signature="s"))),
    Content("user", (Part(FunctionResponse("read", {"result": "1\n2"}, "c1")),)),
    Content(
        "model", (Part(FunctionCall("read", {"path": "b"}, "c2")), Part(FunctionCall("old", None, "c3")))
    ),
    Content(
        "function",
        (
            Part(FunctionResponse("read", {"error": "no </tool_response> file"}, "c2")),
            Part(FunctionResponse("old", {"output": "x </tool_response> y"}, "c3")),
        ),
    ),
)
REQUEST = GenerateRequest(
    "qwen", CONTENTS, Content(None, (Part("Be brief."),)), (Tool((READ, NATIVE)), GOOGLE_SEARCH)
)
TEXT = ModelCapabilities(tools="text")


def written(
    request: GenerateRequest, capabilities: ModelCapabilities = TEXT, *, no_thinking: bool = False
) -> RequestInText:
    return request_in_text(request, capabilities, no_thinking=no_thinking)


def choosing(**calling: Any) -> GenerateRequest:
    return replace(REQUEST, tool_config={"functionCallingConfig": calling, "retrievalConfig": {"a": 1}})


def instruction(request: GenerateRequest) -> str:
    system = written(request).request.system
    assert system is not None
    return str(system.parts[-1].data)


def texts(request: GenerateRequest) -> list[list[Any]]:
    return [[part.data for part in content.parts] for content in request.contents]


def test_each_tool_is_one_line_of_json_in_the_instruction() -> None:
    found = re.search(r"^<tools>\n(.*)\n</tools>$", instruction(REQUEST), re.MULTILINE | re.DOTALL)
    assert found is not None
    described = {"name": "read", "description": "Reads a </tools> file.", "parameters": SCHEMA}
    old = {"name": "old", "parameters": NATIVE.extra["parameters"]}
    assert [orjson.loads(line) for line in found[1].split("\n")] == [
        {"type": "function", "function": described},
        {"type": "function", "function": old},
    ]
    assert found[1].count("</tools>") == 0  # a description cannot end the list


def test_the_declared_tools_are_gone_and_the_clients_instruction_stays() -> None:
    request = written(choosing(mode="AUTO")).request
    assert request.tools == (GOOGLE_SEARCH,)
    assert request.tool_config == {"retrievalConfig": {"a": 1}}
    assert request.system is not None
    assert request.system.parts[0] == Part("Be brief.")
    assert written(replace(REQUEST, system=None)).request.system is not None


def test_calls_and_results_of_the_history_are_text() -> None:
    request = written(REQUEST).request
    assert [content.role for content in request.contents] == ["user", "model", "user", "model", "user"]
    assert texts(request) == [
        ["Look."],
        ["I look.", '\n<tool_call>\n{"name":"read","arguments":{"path":"a"}}\n</tool_call>'],
        ["<tool_response>\n1\n2\n</tool_response>"],
        [
            '<tool_call>\n{"name":"read","arguments":{"path":"b"}}\n</tool_call>',
            '\n<tool_call>\n{"name":"old","arguments":{}}\n</tool_call>',
        ],
        [
            '<tool_response>\n{"error":"no <\\/tool_response> file"}\n</tool_response>',
            "\n<tool_response>\nx <\\/tool_response> y\n</tool_response>",
        ],
    ]
    assert not [part for content in request.contents for part in content.parts if part.signature]


@pytest.mark.parametrize("count", range(len(CONTENTS)))
def test_a_longer_conversation_begins_with_the_same_text(count: int) -> None:
    shorter = written(replace(REQUEST, contents=CONTENTS[:count])).request
    longer = written(REQUEST).request
    assert shorter.contents == longer.contents[:count]
    assert shorter.system == longer.system


@pytest.mark.parametrize(
    ("calling", "words", "callable_tools"),
    [
        ({}, "", ["read", "old"]),
        ({"mode": "AUTO"}, "", ["read", "old"]),
        ({"mode": "NONE"}, "Do not call a tool in this answer.", []),
        ({"mode": "ANY"}, "You must call at least one tool in this answer.", ["read", "old"]),
        (
            {"mode": "AUTO", "allowedFunctionNames": ["old"]},
            "In this answer, call only these tools: old.",
            ["old"],
        ),
    ],
)
def test_the_tool_choice_is_expressed_in_words(
    calling: dict[str, Any], words: str, callable_tools: list[str]
) -> None:
    request = choosing(**calling)
    assert instruction(request) == f"{instruction(REQUEST)}\n\n{words}".strip()
    assert list(written(request).tools) == callable_tools


def test_a_required_call_is_a_loss() -> None:
    assert written(choosing(mode="ANY")).notes == (TOOL_CHOICE_IN_TEXT,)
    assert written(REQUEST).notes == ()


def test_a_request_without_tools_gets_no_instruction() -> None:
    request = replace(REQUEST, tools=(), tool_config=EMPTY)
    assert written(request).request.system == REQUEST.system


def test_a_model_with_declared_tools_gets_them_unchanged() -> None:
    assert written(REQUEST, ModelCapabilities(think="show")).request is REQUEST


def test_the_soft_switch_stands_before_each_text_of_the_user_if_thinking_is_off() -> None:
    model = ModelCapabilities(tools="text", soft_switch="/no_think")
    contents = (*CONTENTS, Content("user", (Part(FunctionResponse("old", {}, "x")), Part("And?"))))
    request = written(replace(REQUEST, contents=contents), model, no_thinking=True).request
    assert texts(request)[0] == ["/no_think\nLook."]
    assert texts(request)[2] == ["<tool_response>\n1\n2\n</tool_response>"]
    assert texts(request)[-1] == ["<tool_response>\n{}\n</tool_response>", "/no_think\nAnd?"]
    assert written(REQUEST, model).request == written(REQUEST).request


ARGUMENTS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    ),
)


@given(st.lists(ARGUMENTS, min_size=1, max_size=3), st.booleans())
def test_the_reader_reads_the_calls_of_the_history(arguments: list[dict[str, Any]], after_text: bool) -> None:
    calls = tuple(Part(FunctionCall("old", each)) for each in arguments)
    content = Content("model", (*((Part("I call."),) if after_text else ()), *calls))
    (said,) = written(replace(REQUEST, contents=(content,))).request.contents
    notes: list[str] = []
    reader = TextReader({"old": KnownTool("old", {}, {})}, notes.append, thoughts=True)
    parts = [part for each in said.parts for part in reader.feed(str(each.data))]
    parts += reader.finish(complete=True)
    found = [part for part in parts if isinstance(part.data, FunctionCall)]
    assert (found, notes) == (list(calls), [])
    spoken = [part.data for part in parts if isinstance(part.data, str)]
    assert "".join(spoken).strip() == ("I call." if after_text else "")


def test_a_parameter_map_never_replaces_an_argument() -> None:
    tool = KnownTool(
        "t", {"path": {}, "file": {}}, {"name": "path", "title": "path", "file": "path", "x": "unknown"}
    )
    assert tool.own_arguments({"name": "a"}) == {"path": "a"}
    assert tool.own_arguments({"name": "a", "path": "b"}) == {"name": "a", "path": "b"}
    assert tool.own_arguments({"name": "a", "title": "b"}) == {"path": "a", "title": "b"}
    assert tool.own_arguments({"file": "a"}) == {"file": "a"}  # the tool has this parameter
    assert tool.own_arguments({"x": "a"}) == {"x": "a"}
