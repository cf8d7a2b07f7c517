"""Calls of tools that the bridge runs: their parts, and what a model gets of them in a later request."""

from __future__ import annotations

import pytest

from bridge.gemini.google_tools import is_server_tool
from bridge.gemini.hosted_tools import (
    TOOL_TYPE,
    HostedCall,
    HostedKind,
    HostedResult,
    hosted_in,
    hosted_part,
    with_function_calls,
)
from bridge.gemini.types import MODEL, USER, Content, FunctionCall, FunctionResponse, OtherData, Part
from bridge.gemini.wire import part_from_json, part_to_json

CALL = HostedCall("call_1", "docs", "read_file", {"path": "a.md"})
RESULT = HostedResult("call_1", "docs", "read_file", {"output": "text"})
ALL = [
    CALL,
    RESULT,
    HostedResult("call_1", "docs", "read_file", {"error": "gone"}, is_error=True),
    HostedCall("list_1", "wiki", kind=HostedKind.TOOL_LIST),
    HostedResult("list_1", "wiki", response={"tools": []}, kind=HostedKind.TOOL_LIST),
    HostedCall("ask_1", "wiki", "edit", {"page": "a"}, HostedKind.APPROVAL),
]


@pytest.mark.parametrize("hosted", ALL)
def test_a_part_survives_the_wire(hosted):
    part = part_from_json(part_to_json(hosted_part(hosted, "signed")))
    assert hosted_in(part.data) == hosted
    assert part.signature == "signed"
    assert not is_server_tool(part.data)


@pytest.mark.parametrize(
    "value",
    [
        {"id": "1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"kind": "call"}},
        {"id": "1", "toolType": TOOL_TYPE},
        {"id": "1", "toolType": TOOL_TYPE, "args": {"kind": ["call"]}},
        {"id": "1", "toolType": TOOL_TYPE, "args": {"kind": "other"}},
        {"id": "1", "toolType": TOOL_TYPE, "args": "call"},
        "text",
    ],
)
def test_other_data_is_not_taken_for_a_call(value):
    assert hosted_in(OtherData("toolCall", value)) is None


def test_a_model_gets_function_calls_with_their_signatures():
    answer = Content(
        MODEL,
        (Part("Let me look."), hosted_part(CALL, "signed"), hosted_part(RESULT), Part("It says: text.")),
    )
    asked, call, response, end = with_function_calls([Content(USER, (Part("?"),)), answer])[0:4]
    assert asked.role == USER
    assert call == Content(
        MODEL,
        (
            Part("Let me look."),
            Part(FunctionCall("docs__read_file", {"path": "a.md"}, "call_1"), signature="signed"),
        ),
    )
    assert response == Content(
        USER, (Part(FunctionResponse("docs__read_file", {"output": "text"}, "call_1")),)
    )
    assert end == Content(MODEL, (Part("It says: text."),))


def test_what_the_model_did_not_call_or_never_got_is_left_out():
    parts = [hosted_part(each) for each in (*ALL[3:], HostedCall("call_2", "docs", "glob"))]
    orphan = hosted_part(HostedResult("call_3", "docs", "glob"))
    assert with_function_calls([Content(MODEL, (*parts, orphan, Part("text")))]) == [
        Content(MODEL, (Part("text"),))
    ]


def test_other_contents_are_unchanged():
    contents = [Content(USER, (Part("a"),)), Content(MODEL, (Part(FunctionCall("f", {}, "1")),))]
    assert with_function_calls(contents) == contents
