"""Writes the tools, calls and results of a request as text, for a model that gets no declared tools.

The same request always becomes the same text, and a turn does not depend on later turns, so the prefix of a
conversation stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import orjson

from bridge.gemini.losses import TOOL_CHOICE_IN_TEXT
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import (
    EMPTY,
    USER,
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    JsonObject,
    Part,
    Tool,
)
from bridge.text_tools.answer_reader import AnswerReader
from bridge.text_tools.known_tools import KnownTool, declared_functions, known_tools, parameters_of
from bridge.text_tools.text_reader import Note, TextReader
from bridge.text_tools.words import TOOL_CALL, TOOL_CALL_END, TOOL_RESPONSE, TOOL_RESPONSE_END

_INSTRUCTION = """\
# Tools

You can call tools. Each line between <tools> and </tools> describes one tool as JSON, with a JSON schema of \
its parameters:
<tools>
{tools}
</tools>

To call a tool, write its name and its arguments as one JSON object between <tool_call> and </tool_call>:
<tool_call>
{{"name": "NAME", "arguments": {{"PARAMETER": "VALUE"}}}}
</tool_call>

Call a tool only if you need it. Give every required parameter. Write one such block for each call. You may \
explain before the calls what you do. End your answer after the calls: the next message contains their \
results, each between <tool_response> and </tool_response>, in the order of the calls.
"""

_RESULTS = ("result", "output")


class RequestInText(NamedTuple):
    request: GenerateRequest
    notes: tuple[str, ...]
    tools: dict[str, KnownTool]  #: the tools that the answer may call as text
    capabilities: ModelCapabilities
    no_thinking: bool  #: the client or the operator switched thinking off; not every model obeys

    def new_answer_reader(self, note: Note) -> AnswerReader:
        model = self.capabilities
        new_text_reader = partial(
            TextReader,
            self.tools,
            note,
            thoughts=bool(model.think),
            in_thought=bool(model.think) and model.think_opens == "template",
            undecided=self.no_thinking,
        )
        return AnswerReader(
            new_text_reader,
            text_beside_calls=model.preserve_context or not self.tools,
            show_thoughts=model.think in ("", "show"),
        )


def request_in_text(
    request: GenerateRequest, capabilities: ModelCapabilities, *, no_thinking: bool
) -> RequestInText:
    """The request in the form that the model reads."""
    tools: dict[str, KnownTool] = {}
    notes: tuple[str, ...] = ()
    if capabilities.tools == "text":
        tools = known_tools(request, capabilities.parameter_map)
        request, notes = _tools_as_text(request)
    if no_thinking and capabilities.soft_switch:
        contents = tuple(_switched(each, capabilities.soft_switch) for each in request.contents)
        request = replace(request, contents=contents)
    return RequestInText(request, notes, tools, capabilities, no_thinking)


def _tools_as_text(request: GenerateRequest) -> tuple[GenerateRequest, tuple[str, ...]]:
    functions = list(declared_functions(request))
    calling = request.tool_config.get("functionCallingConfig") or EMPTY
    system = request.system
    if functions:
        parts = () if system is None else system.parts
        system = Content(None, (*parts, Part(_instruction(functions, calling))))
    config = {name: value for name, value in request.tool_config.items() if name != "functionCallingConfig"}
    written = replace(
        request,
        system=system,
        contents=tuple(map(_written, request.contents)),
        tools=tuple(Tool((), tool.extra) for tool in request.tools if tool.extra),
        tool_config=config or EMPTY,
    )
    return written, (TOOL_CHOICE_IN_TEXT,) if functions and calling.get("mode") == "ANY" else ()


# --- the instruction ---------------------------------------------------------------------------------


def _instruction(functions: list[FunctionDeclaration], calling: JsonObject) -> str:
    text = _INSTRUCTION.format(tools="\n".join(map(_described, functions)))
    # The choice changes from turn to turn, so it comes last.
    return "\n".join((text, *_choice(calling))).strip()


def _described(function: FunctionDeclaration) -> str:
    described: dict[str, Any] = {"name": function.name}
    if function.description:
        described["description"] = function.description
    if parameters := parameters_of(function):
        described["parameters"] = parameters
    return _json_line({"type": "function", "function": described})


def _choice(calling: JsonObject) -> Iterator[str]:
    mode, allowed = calling.get("mode"), calling.get("allowedFunctionNames")
    if mode == "NONE":
        yield "Do not call a tool in this answer."
        return
    if mode == "ANY":
        yield "You must call at least one tool in this answer."
    if allowed:
        yield f"In this answer, call only these tools: {', '.join(allowed)}."


def _json_line(value: Any) -> str:
    """JSON that cannot contain a closing tag."""
    return orjson.dumps(value, default=dict).decode().replace("</", "<\\/")


# --- the history -------------------------------------------------------------------------------------


def _written(content: Content) -> Content:
    if not any(isinstance(part.data, FunctionCall | FunctionResponse) for part in content.parts):
        return content
    results = any(isinstance(part.data, FunctionResponse) for part in content.parts)
    parts = tuple(_written_part(part, bool(number)) for number, part in enumerate(content.parts))
    return Content(USER if results else content.role, parts, content.extra)


def _written_part(part: Part, on_new_line: bool) -> Part:
    """A call or a result as text. Its signature belongs to the declared call, and is dropped with it."""
    match part.data:
        case FunctionCall() as call:
            text = f"{TOOL_CALL}\n{_call_as_json(call)}\n{TOOL_CALL_END}"
        case FunctionResponse() as response:
            text = f"{TOOL_RESPONSE}\n{_result(response.response)}\n{TOOL_RESPONSE_END}"
        case _:
            return part
    return Part(f"\n{text}" if on_new_line else text)


def _call_as_json(call: FunctionCall) -> str:
    return _json_line({"name": call.name, "arguments": call.args or EMPTY})


def _result(response: JsonObject) -> str:
    """The result: plain text if the tool returned text, else JSON."""
    (only,) = (
        response.values() if len(response) == 1 and not response.keys().isdisjoint(_RESULTS) else (None,)
    )
    if isinstance(only, str):
        return only.replace("</", "<\\/") if TOOL_RESPONSE_END in only else only
    return _json_line(response)


def _switched(content: Content, switch: str) -> Content:
    """The content with the switch before the first text of the user. All user turns get it, so that a turn
    does not change when the next one is added."""
    for number, part in enumerate(content.parts):
        if content.role == USER and isinstance(part.data, str) and not part.data.startswith(TOOL_RESPONSE):
            switched = replace(part, data=f"{switch}\n{part.data}")
            return replace(content, parts=(*content.parts[:number], switched, *content.parts[number + 1 :]))
    return content
