"""Converts a call to the output item for the kind of its tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from bridge.gemini.freeform import freeform_text
from bridge.gemini.types import FunctionCall
from bridge.protocols.openai_responses.tools import CalledTool, ToolKind

NewId = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class CallItem:
    item: dict[str, Any]  #: the fields of the item from the start
    empty: dict[str, Any]  #: the empty content fields
    whole: dict[str, Any]  #: the complete content fields
    event: str | None = None  #: prefix of the events that carry the content as text, if any
    content: str = ""  #: the name of the field with this text
    text: str = ""
    done: dict[str, Any] = field(default_factory=dict)  #: further fields of the event that ends the content
    has_status: bool = True


def call_item(call: FunctionCall, called: CalledTool | None, new_id: NewId) -> CallItem:
    """The item for a call. An undeclared function becomes a function call, so that the client can report
    it."""
    called = called or CalledTool(ToolKind.FUNCTION, call.name)
    return _SHAPES[called.kind](call, called, new_id)


def _function(call: FunctionCall, called: CalledTool, new_id: NewId) -> CallItem:
    text = orjson.dumps(dict(call.args or {})).decode()
    return CallItem(
        {"type": "function_call", "id": new_id("fc_"), "call_id": call.id, **_name_fields(called)},
        {"arguments": ""},
        {"arguments": text},
        "response.function_call_arguments",
        "arguments",
        text,
        {"name": called.name},
    )


def _custom(call: FunctionCall, called: CalledTool, new_id: NewId) -> CallItem:
    text = freeform_text(call)
    return CallItem(
        {"type": "custom_tool_call", "id": new_id("ctc_"), "call_id": call.id, **_name_fields(called)},
        {"input": ""},
        {"input": text},
        "response.custom_tool_call_input",
        "input",
        text,
        has_status=False,
    )


def _local_shell(call: FunctionCall, _called: CalledTool, new_id: NewId) -> CallItem:
    action = {"type": "exec", "command": [], "env": {}, **(call.args or {})}
    item = {"type": "local_shell_call", "id": new_id("lsh_"), "call_id": call.id, "action": action}
    return CallItem(item, {}, {})


def _tool_search(call: FunctionCall, _called: CalledTool, new_id: NewId) -> CallItem:
    item = {"type": "tool_search_call", "id": new_id("tsc_"), "call_id": call.id, "execution": "client"}
    return CallItem({**item, "arguments": dict(call.args or {})}, {}, {})


def _name_fields(called: CalledTool) -> dict[str, Any]:
    named = {"name": called.name}
    return named if called.namespace is None else {**named, "namespace": called.namespace}


_SHAPES: dict[ToolKind, Callable[[FunctionCall, CalledTool, NewId], CallItem]] = {
    ToolKind.FUNCTION: _function,
    ToolKind.CUSTOM: _custom,
    ToolKind.LOCAL_SHELL: _local_shell,
    ToolKind.TOOL_SEARCH: _tool_search,
}


def status_if(sent: bool, status: str) -> dict[str, str]:
    """The `status` of an item, if items of this kind have one."""
    return {"status": status} if sent else {}
