"""The clients' protocols, as far as the probe needs them: requests, streams and tool results.

A protocol client builds the requests and reads the streams as real clients do, without IO. It does not use
the bridge's own converters, because the probe tests these converters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson

from bridge.connect.clients import Target
from bridge.connect.sse_post import PostFailed
from bridge.gemini.types import JsonObject

#: Enough output tokens for a model that thinks before it answers.
MOST_TOKENS = 8192

IN_THE_STREAM = "The answer failed after it had started; the bridge's log shows the reason."


@dataclass(frozen=True, slots=True)
class ProbeTool:
    """A tool for the model: with a schema, or freeform, with a grammar for its input text."""

    name: str
    description: str
    schema: JsonObject | None = None
    grammar: str | None = None

    @property
    def freeform(self) -> bool:
        return self.grammar is not None


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    id: str
    name: str
    input: str  #: JSON, or the text of a freeform call
    freeform: bool = False


@dataclass(slots=True)
class ReceivedAnswer:
    """The answer in a stream."""

    text: str = ""
    calls: list[ReceivedCall] = field(default_factory=list)
    ended: bool = False  #: the stream ended successfully, with the last event of the protocol
    turn: list[Any] = field(default_factory=list)  #: the answer in the format of the history


class ProtocolClient(ABC):
    title: ClassVar[str]
    freeform: ClassVar[bool] = False  #: whether clients of this protocol declare freeform tools

    @abstractmethod
    def address(self, target: Target) -> str: ...

    def headers(self, target: Target) -> dict[str, str]:
        return {"Authorization": f"Bearer {target.key}"}

    @abstractmethod
    def first_request(self, model: str, question: str, tool: ProbeTool | None = None) -> JsonObject:
        """The body of the first request. If there is a tool, the request forces the model to call it."""

    @abstractmethod
    def read(self, events: Iterable[JsonObject]) -> ReceivedAnswer: ...

    @abstractmethod
    def next_request(self, first: JsonObject, received: ReceivedAnswer, result: str) -> JsonObject:
        """The body of the next request, with the result of the calls; it does not force another call."""


def _failed(error: object) -> PostFailed:
    message = error.get("message") if isinstance(error, dict) else None
    return PostFailed(f"the stream failed: {message or 'the error has no message'}", IN_THE_STREAM)


class ChatClient(ProtocolClient):
    title = "OpenAI Chat Completions"

    def address(self, target: Target) -> str:
        return f"{target.url}/v1/chat/completions"

    def first_request(self, model: str, question: str, tool: ProbeTool | None = None) -> JsonObject:
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
        if tool is None:
            return body
        function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
        return {**body, "tools": [{"type": "function", "function": function}], "tool_choice": "required"}

    def read(self, events: Iterable[JsonObject]) -> ReceivedAnswer:
        received, calls = ReceivedAnswer(), dict[int, dict[str, Any]]()
        for event in events:
            if "error" in event:
                raise _failed(event["error"])
            for choice in event["choices"]:
                received.text += choice["delta"].get("content") or ""
                received.ended = received.ended or choice["finish_reason"] in ("stop", "tool_calls")
                for part in choice["delta"].get("tool_calls", ()):
                    _add_call_part(calls, part)
        for call in calls.values():
            received.calls.append(
                ReceivedCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            )
        received.turn = [
            {"role": "assistant", "content": received.text or None, "tool_calls": [*calls.values()]}
        ]
        return received

    def next_request(self, first: JsonObject, received: ReceivedAnswer, result: str) -> JsonObject:
        results = [{"role": "tool", "tool_call_id": call.id, "content": result} for call in received.calls]
        return {**first, "messages": [*first["messages"], *received.turn, *results], "tool_choice": "auto"}


def _add_call_part(calls: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    """Only the arguments arrive in pieces. The first part has everything else, including the signature."""
    index = part.pop("index")
    if index not in calls:
        calls[index] = part
    else:
        calls[index]["function"]["arguments"] += part["function"]["arguments"]


class ResponsesClient(ProtocolClient):
    title = "OpenAI Responses"

    def address(self, target: Target) -> str:
        return f"{target.url}/v1/responses"

    def first_request(self, model: str, question: str, tool: ProbeTool | None = None) -> JsonObject:
        said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": question}]}
        body = {"model": model, "stream": True, "input": [said], "store": False}
        body["include"] = ["reasoning.encrypted_content"]
        if tool is None:
            return body
        return {**body, "tools": [self._declared(tool)], "tool_choice": "required"}

    def _declared(self, tool: ProbeTool) -> JsonObject:
        named = {"name": tool.name, "description": tool.description}
        if tool.freeform:
            grammar = {"type": "grammar", "syntax": "lark", "definition": tool.grammar}
            return {"type": "custom", **named, "format": grammar}
        return {"type": "function", **named, "parameters": tool.schema, "strict": False}

    def read(self, events: Iterable[JsonObject]) -> ReceivedAnswer:
        received = ReceivedAnswer()
        for event in events:
            match event.get("type"):
                case "response.output_text.delta":
                    received.text += event["delta"]
                case "response.output_item.done":
                    received.turn.append(event["item"])
                case "response.completed":
                    received.ended = True
                case "response.failed" | "response.incomplete":
                    raise _failed(event["response"].get("error"))
                case "error":
                    raise _failed(event.get("error") or event)
        received.calls = [call for item in received.turn if (call := _call_of(item))]
        return received

    def next_request(self, first: JsonObject, received: ReceivedAnswer, result: str) -> JsonObject:
        results = [
            {
                "type": "custom_tool_call_output" if call.freeform else "function_call_output",
                "call_id": call.id,
                "output": result,
            }
            for call in received.calls
        ]
        return {**first, "input": [*first["input"], *received.turn, *results], "tool_choice": "auto"}


def _call_of(item: dict[str, Any]) -> ReceivedCall | None:
    match item["type"]:
        case "function_call":
            return ReceivedCall(item["call_id"], item["name"], item["arguments"])
        case "custom_tool_call":
            return ReceivedCall(item["call_id"], item["name"], item["input"], freeform=True)
    return None


class CodexClient(ResponsesClient):
    """A client like Codex: with freeform tools, and the headers by which the bridge chooses the dialect."""

    title = "OpenAI Responses, Codex dialect"
    freeform = True

    def headers(self, target: Target) -> dict[str, str]:
        mark = {"Originator": "codex_probe", "User-Agent": "codex_probe", "Accept": "text/event-stream"}
        return {**super().headers(target), **mark}


class MessagesClient(ProtocolClient):
    title = "Anthropic Messages"

    def address(self, target: Target) -> str:
        return f"{target.url}/v1/messages"

    def headers(self, target: Target) -> dict[str, str]:
        return {**super().headers(target), "Anthropic-Version": "2023-06-01"}

    def first_request(self, model: str, question: str, tool: ProbeTool | None = None) -> JsonObject:
        said = [{"role": "user", "content": question}]
        body = {"model": model, "stream": True, "max_tokens": MOST_TOKENS, "messages": said}
        if tool is None:
            return body
        declared = {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        return {**body, "tools": [declared], "tool_choice": {"type": "any"}}

    def read(self, events: Iterable[JsonObject]) -> ReceivedAnswer:
        received, unparsed = ReceivedAnswer(), dict[int, str]()
        for event in events:
            match event.get("type"):
                case "content_block_start":
                    received.turn.append(event["content_block"])
                case "content_block_delta":
                    _apply_delta(received, unparsed, event["index"], event["delta"])
                case "message_stop":
                    received.ended = True
                case "error":
                    raise _failed(event["error"])
        for index, text in unparsed.items():
            block = received.turn[index]
            block["input"] = orjson.loads(text or "{}")
            received.calls.append(ReceivedCall(block["id"], block["name"], text))
        return received

    def next_request(self, first: JsonObject, received: ReceivedAnswer, result: str) -> JsonObject:
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": result} for call in received.calls
        ]
        turns = [{"role": "assistant", "content": received.turn}, {"role": "user", "content": results}]
        return {**first, "messages": [*first["messages"], *turns], "tool_choice": {"type": "auto"}}


def _apply_delta(
    received: ReceivedAnswer, unparsed: dict[int, str], index: int, delta: dict[str, Any]
) -> None:
    block = received.turn[index]
    match delta["type"]:
        case "text_delta":
            received.text += delta["text"]
            block["text"] += delta["text"]
        case "input_json_delta":
            unparsed[index] = unparsed.get(index, "") + delta["partial_json"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]


class GeminiClient(ProtocolClient):
    title = "Gemini's own API"

    def address(self, target: Target) -> str:
        return f"{target.url}/v1beta/models/{target.model}:streamGenerateContent?alt=sse"

    def headers(self, target: Target) -> dict[str, str]:
        return {"X-Goog-Api-Key": target.key}

    def first_request(self, model: str, question: str, tool: ProbeTool | None = None) -> JsonObject:
        body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": question}]}]}
        if tool is None:
            return body
        declared = {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
        body["tools"] = [{"functionDeclarations": [declared]}]
        return {**body, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}

    def read(self, events: Iterable[JsonObject]) -> ReceivedAnswer:
        received, parts = ReceivedAnswer(), list[dict[str, Any]]()
        for event in events:
            if "error" in event:
                raise _failed(event["error"])
            for candidate in event.get("candidates", ()):
                parts += candidate.get("content", {}).get("parts", ())
                received.ended = received.ended or candidate.get("finishReason") == "STOP"
        received.text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
        called = [part["functionCall"] for part in parts if "functionCall" in part]
        received.calls = [
            ReceivedCall(call.get("id", ""), call["name"], str(call.get("args"))) for call in called
        ]
        received.turn = [{"role": "model", "parts": parts}]
        return received

    def next_request(self, first: JsonObject, received: ReceivedAnswer, result: str) -> JsonObject:
        results = [
            {"functionResponse": {**_call_id(call), "response": {"result": result}}}
            for call in received.calls
        ]
        turns = [*received.turn, {"role": "user", "parts": results}]
        auto = {"functionCallingConfig": {"mode": "AUTO"}}
        return {**first, "contents": [*first["contents"], *turns], "toolConfig": auto}


def _call_id(call: ReceivedCall) -> dict[str, str]:
    return {"id": call.id, "name": call.name} if call.id else {"name": call.name}


PROTOCOL_CLIENTS: Mapping[str, ProtocolClient] = {
    "chat": ChatClient(),
    "responses": ResponsesClient(),
    "codex": CodexClient(),
    "messages": MessagesClient(),
    "gemini": GeminiClient(),
}
