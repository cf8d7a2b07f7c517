"""Growing requests and answers of models that write calls and thoughts as text."""

from __future__ import annotations

from collections.abc import Callable

from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import (
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    Part,
    Tool,
)
from bridge.gemini.wire import chunk_from_json
from bridge.text_tools import request_in_text
from bridge.text_tools.known_tools import KnownTool
from bridge.text_tools.text_reader import TextReader
from tests.attacks.growing_pieces import fed
from tests.attacks.measuring import Case, Work

TOOL = KnownTool("t", {"a": {"type": ["object", "null"]}, "b": {}}, {"c": "a"})
TEXT_CALL = '<tool_call>{"name": "t", "arguments": {"c": 1}}</tool_call>\n'


def _text_reader() -> TextReader:
    return TextReader({"t": TOOL}, lambda _note: None, thoughts=True)


class _WholeAnswer:
    """A TextReader that takes bytes, as the decoders do."""

    def __init__(self) -> None:
        self._reader = _text_reader()

    def feed(self, data: bytes) -> list[Part]:
        return self._reader.feed(data.decode())

    def finish(self) -> list[Part]:
        return self._reader.finish(complete=True)


def text_of(unit: str, start: str = "", end: str = "") -> Callable[[int], bytes]:
    return lambda n: (start + unit * n + end).encode()


TEXTS: dict[str, Callable[[int], bytes]] = {
    "calls": text_of(TEXT_CALL),
    "one long string": text_of('x\\"}<', '<tool_call>{"name": "t", "arguments": {"a": "', '"}}</tool_call>'),
    "one long call": text_of("[{},1],", '<tool_call>{"name": "t", "arguments": {"a": [', "1]}}</tool_call>"),
    "calls in one array": text_of('{"name": "t"},', "<tool_call>[", '{"name": "t"}]'),
    "an open array": text_of("[", '<tool_call>{"name": "t", "arguments": {"a": '),
    "line breaks in a string": text_of("\n", '<tool_call>{"name": "t", "arguments": {"a": "', '"}}'),
    "parameters": text_of(
        "<parameter=a>1</parameter>\n", "<tool_call><function=t>", "</function></tool_call>"
    ),
    "calls in a value": text_of(
        "<function=t></function> ", "<function=t><parameter=a>", "</parameter></function>"
    ),
    "ends in a value": text_of("</parameter> </function> ", "<tool_call><function=t><parameter=a>"),
    "white space in a value": text_of("\n", "<tool_call><function=t><parameter=a></parameter>", "<"),
    "thoughts": text_of("<think>a</think>\n"),
    "one long thought": text_of("a</th", "<think>"),
    "tags in text": text_of("a <tool_call> </think> `<tool_call>{`\n"),
    "openers in text": text_of("a\n{ \n```js\n <function=\n```\n"),
    "white space": text_of(" \n\t"),
    "white space before calls": text_of("\n" * 80 + "{"),
    "one line": text_of("<{` "),
}


def _request_in_text(n: int) -> Work:
    """A history of calls and results, a schema of many alternatives, and an answer whose text is dropped."""
    turns = [
        content
        for number in range(n)
        for content in (
            Content("user", (Part("x"),)),
            Content("model", (Part(FunctionCall("t", {"a": 1}, f"c{number}")),)),
            Content("user", (Part(FunctionResponse("t", {"result": "</tool_response>"}, f"c{number}")),)),
        )
    ]
    schema = {"properties": {"a": {"type": ["null"] * n, "anyOf": [{"type": "array"}] * n}}}
    tools = tuple(
        FunctionDeclaration(f"t{number}", "", schema if not number else None) for number in range(n)
    )
    request = GenerateRequest("m", tuple(turns), tools=(Tool(tools), Tool(extra={"googleSearch": {}})))
    model = ModelCapabilities(tools="text", think="drop", preserve_context=False, soft_switch="/no_think")
    called = "<function=t0><parameter=a>[]</parameter></function>"
    answer = chunk_from_json(
        {
            "candidates": [
                {"content": {"parts": [{"text": "a"}, {"text": called}] * n}, "finishReason": "STOP"}
            ]
        }
    )

    def work() -> None:
        written = request_in_text(request, model, no_thinking=True)
        written.new_answer_reader(lambda _note: None).feed(answer)

    return work


def _one_turn_in_text(n: int) -> Work:
    """One turn with many calls and results, and a question behind them."""
    calls = Content("model", (Part(FunctionCall("t", {"a": 1})),) * n)
    results = Content("user", (*(Part(FunctionResponse("t", {})),) * n, Part("x")))
    request = GenerateRequest("m", (calls, results))
    model = ModelCapabilities(tools="text", soft_switch="/no_think")
    return lambda: request_in_text(request, model, no_thinking=True)


TEXT_CASES: dict[str, Case] = {
    f"text: {name} in {cut}": fed(_WholeAnswer, make, size)
    for name, make in TEXTS.items()
    for cut, size in (("one piece", 1 << 30), ("small pieces", 9))
} | {"a request in text": _request_in_text, "one turn in text": _one_turn_in_text}
