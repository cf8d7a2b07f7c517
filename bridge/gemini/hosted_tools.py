"""Calls of tools that the bridge runs, as parts of the model's answer.

Gemini has two parts for calls that a server runs: `toolCall` and `toolResponse`. The bridge uses them with
the tool type that Google leaves unspecified. Client protocols show them in their own form, and Google's own
clients return them unchanged. A model of Gemini does not accept them, so a request with such parts in its
history gets a function call and its response in their place.

Every call has exactly one result. It follows its call directly: calls that ran at the same time are told one
after the other. A request for approval has no result; the client sends the decision as its result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from bridge.gemini.types import (
    EMPTY,
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    JsonObject,
    OtherData,
    Part,
    PartData,
    value_type,
)

TOOL_TYPE = "TOOL_TYPE_UNSPECIFIED"
_CALL, _RESPONSE = "toolCall", "toolResponse"


class HostedKind(StrEnum):
    CALL = "call"
    TOOL_LIST = "tool_list"  #: the tools of a server; the response is {"tools": [{name, description, …}]}
    APPROVAL = "approval"  #: a call that waits for approval; the response is {"approve": bool, "reason": …}


@value_type
class HostedCall:
    id: str  #: of the model's function call, by which the signature store knows it
    server: str  #: the label of the server; may be empty
    name: str = ""  #: the tool's name at its server
    arguments: JsonObject = EMPTY
    kind: HostedKind = HostedKind.CALL

    @property
    def function_name(self) -> str:
        return function_name(self.server, self.name)


@value_type
class HostedResult:
    id: str  #: of its call
    server: str
    name: str = ""
    response: JsonObject = EMPTY  #: by convention {"output": …} or {"error": …}
    is_error: bool = False
    kind: HostedKind = HostedKind.CALL

    @property
    def function_name(self) -> str:
        return function_name(self.server, self.name)


Hosted = HostedCall | HostedResult


def result_of(call: HostedCall, text: str, *, failed: bool) -> HostedResult:
    """A result that is one text."""
    response = {"error" if failed else "output": text}
    return HostedResult(call.id, call.server, call.name, response, failed, call.kind)


def function_name(server: str, name: str) -> str:
    """The name under which the model calls the tool."""
    return f"{server}__{name}" if server else name


def hosted_part(hosted: Hosted, signature: str | None = None) -> Part:
    """`signature` is the one of the model's own function call."""
    content: JsonObject
    named = {"kind": str(hosted.kind), "server": hosted.server, "name": hosted.name}
    if isinstance(hosted, HostedCall):
        content = {"args": {**named, "arguments": dict(hosted.arguments)}}
    else:
        content = {"response": {**named, "response": dict(hosted.response), "isError": hosted.is_error}}
    field = _CALL if isinstance(hosted, HostedCall) else _RESPONSE
    return Part(OtherData(field, {"id": hosted.id, "toolType": TOOL_TYPE, **content}), signature=signature)


def hosted_in(data: PartData) -> Hosted | None:
    """The call or the result that this part holds; None if it holds something else."""
    if not is_hosted(data):
        return None
    assert isinstance(data, OtherData)
    content = data.value.get("args" if data.field == _CALL else "response")
    if not isinstance(content, dict) or content.get("kind") not in list(HostedKind):
        return None
    named = (str(data.value.get("id")), str(content.get("server", "")), str(content.get("name", "")))
    inner = content.get("arguments" if data.field == _CALL else "response")
    values = inner if isinstance(inner, dict) else {}
    kind = HostedKind(content["kind"])
    if data.field == _CALL:
        return HostedCall(*named, values, kind)
    return HostedResult(*named, values, content.get("isError") is True, kind)


def is_hosted(data: PartData) -> bool:
    return (
        isinstance(data, OtherData)
        and data.field in (_CALL, _RESPONSE)
        and isinstance(data.value, dict)
        and data.value.get("toolType") == TOOL_TYPE
    )


# --- the parts in the history ------------------------------------------------------------------------


def with_function_calls(contents: Iterable[Content]) -> list[Content]:
    """The contents with function calls and their responses in place of hosted calls. A call without its
    result, lists of tools and approvals are left out: the model did not make them."""
    contents = list(contents)
    if not any(is_hosted(part.data) for content in contents for part in content.parts):
        return contents
    found = [hosted_in(part.data) for content in contents for part in content.parts]
    answered = {each.id for each in found if isinstance(each, HostedResult) and each.kind is HostedKind.CALL}
    called = {each.id for each in found if isinstance(each, HostedCall) and each.kind is HostedKind.CALL}
    return [split for content in contents for split in _split(content, answered & called)]


def _split(content: Content, complete: set[str]) -> Iterable[Content]:
    """The content as turns of the model and of the user, since a response is in a turn of the user."""
    turns: list[tuple[str | None, list[Part]]] = []
    for part in content.parts:
        role, function_part = content.role, part
        if is_hosted(part.data):
            hosted = hosted_in(part.data)
            if hosted is None or hosted.kind is not HostedKind.CALL or hosted.id not in complete:
                continue
            role = MODEL if isinstance(hosted, HostedCall) else USER
            function_part = replace(part, data=_function_data(hosted))
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].append(function_part)
    return [replace(content, role=role, parts=tuple(parts)) for role, parts in turns]


def _function_data(hosted: Hosted) -> FunctionCall | FunctionResponse:
    if isinstance(hosted, HostedCall):
        return FunctionCall(hosted.function_name, hosted.arguments, hosted.id)
    return FunctionResponse(hosted.function_name, hosted.response, hosted.id)
