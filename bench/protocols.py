"""The protocols of the requests: how each represents a conversation, and how to read its answer.

An answer is right if its text is complete and it has the protocol's end. To add a protocol, add a `Protocol`
here and name it in the entries of the gateways that speak it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from bench.conversation import Conversation, Json, Step


class Reading(NamedTuple):
    text: str
    ended: bool


@dataclass(frozen=True, slots=True)
class Protocol:
    name: str
    path: Callable[[str, bool], str]  #: takes the model, and whether to stream
    body: Callable[[Conversation, str, bool], Json]
    streamed: Callable[[Iterable[bytes]], Reading]  #: takes the data of the events
    whole: Callable[[Any], Reading]
    headers: Mapping[str, str] = field(default_factory=dict)


def _always(path: str) -> Callable[[str, bool], str]:
    return lambda model, stream: path


def _documents(events: Iterable[bytes]) -> Iterable[Any]:
    return map(orjson.loads, events)


# --- Chat Completions --------------------------------------------------------------------------------


def _chat_step(step: Step) -> list[Json]:
    function = {"name": step.tool, "arguments": orjson.dumps(step.arguments).decode()}
    call = {"id": step.call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": step.said, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": step.call_id, "content": step.result},
    ]


def _chat_body(asked: Conversation, model: str, stream: bool) -> Json:
    messages: list[Json] = [
        {"role": "system", "content": asked.system},
        {"role": "user", "content": asked.question},
    ]
    messages += [message for step in asked.steps for message in _chat_step(step)]
    if asked.last:
        messages.append({"role": "user", "content": asked.last})
    body: Json = {"model": model, "messages": messages, "stream": stream, "max_tokens": 4096}
    if stream:
        body["stream_options"] = {"include_usage": True}
    if asked.tools:
        functions = [
            {"name": tool.name, "description": tool.description, "parameters": tool.schema}
            for tool in asked.tools
        ]
        body["tools"] = [{"type": "function", "function": function} for function in functions]
    return body


def _chat_choices(events: Iterable[bytes]) -> Reading:
    texts, finished = [], False
    for document in _documents(events):
        for choice in document.get("choices") or ():
            texts.append(choice["delta"].get("content") or "")
            finished = finished or choice.get("finish_reason") == "stop"
    return Reading("".join(texts), finished)


def _chat_streamed(events: Iterable[bytes]) -> Reading:
    *chunks, last = events
    text, finished = _chat_choices(chunks)
    return Reading(text, finished and last == b"[DONE]")


def chat_without_end_mark(events: Iterable[bytes]) -> Reading:
    """For a gateway that never sends `[DONE]`."""
    return _chat_choices(event for event in events if event != b"[DONE]")


def _chat_whole(answer: Any) -> Reading:
    choice = answer["choices"][0]
    return Reading(choice["message"]["content"], choice["finish_reason"] == "stop")


CHAT = Protocol("chat", _always("/v1/chat/completions"), _chat_body, _chat_streamed, _chat_whole)


# --- Responses ---------------------------------------------------------------------------------------


def _responses_message(role: str, text: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _responses_step(step: Step) -> list[Json]:
    arguments = orjson.dumps(step.arguments).decode()
    return [
        _responses_message("assistant", step.said),
        {"type": "function_call", "call_id": step.call_id, "name": step.tool, "arguments": arguments},
        {"type": "function_call_output", "call_id": step.call_id, "output": step.result},
    ]


def _responses_body(asked: Conversation, model: str, stream: bool) -> Json:
    items = [_responses_message("user", asked.question)]
    items += [item for step in asked.steps for item in _responses_step(step)]
    if asked.last:
        items.append(_responses_message("user", asked.last))
    body: Json = {
        "model": model,
        "instructions": asked.system,
        "input": items,
        "stream": stream,
        "store": False,  # as Codex does
        "max_output_tokens": 4096,
    }
    if asked.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": False,
            }
            for tool in asked.tools
        ]
    return body


def _responses_streamed(events: Iterable[bytes]) -> Reading:
    texts, last = [], {}
    for last in _documents(event for event in events if event != b"[DONE]"):  # some gateways send it
        if last["type"] == "response.output_text.delta":
            texts.append(last["delta"])
    return Reading("".join(texts), last.get("type") == "response.completed")


def _responses_whole(answer: Any) -> Reading:
    messages = [item for item in answer["output"] if item["type"] == "message"]
    texts = [part["text"] for message in messages for part in message["content"]]
    return Reading("".join(texts), answer["status"] == "completed")


RESPONSES = Protocol(
    "responses", _always("/v1/responses"), _responses_body, _responses_streamed, _responses_whole
)


# --- Messages ----------------------------------------------------------------------------------------


def _messages_step(step: Step) -> list[Json]:
    call = {"type": "tool_use", "id": step.call_id, "name": step.tool, "input": step.arguments}
    result = {"type": "tool_result", "tool_use_id": step.call_id, "content": [_text_block(step.result)]}
    return [
        {"role": "assistant", "content": [_text_block(step.said), call]},
        {"role": "user", "content": [result]},
    ]


def _text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def _messages_body(asked: Conversation, model: str, stream: bool) -> Json:
    said: list[Json] = [{"role": "user", "content": [_text_block(asked.question)]}]
    said += [message for step in asked.steps for message in _messages_step(step)]
    if asked.last:
        said[-1]["content"].append(_text_block(asked.last))
    body: Json = {
        "model": model,
        "system": [_text_block(asked.system)],
        "messages": said,
        "stream": stream,
        "max_tokens": 4096,
    }
    if asked.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in asked.tools
        ]
    return body


def _messages_streamed(events: Iterable[bytes]) -> Reading:
    texts, last = [], {}
    for last in _documents(events):
        if last["type"] == "content_block_delta":
            texts.append(last["delta"].get("text", ""))
    return Reading("".join(texts), last.get("type") == "message_stop")


def _messages_whole(answer: Any) -> Reading:
    texts = [block["text"] for block in answer["content"] if block["type"] == "text"]
    return Reading("".join(texts), answer["stop_reason"] == "end_turn")


MESSAGES = Protocol(
    "messages",
    _always("/v1/messages"),
    _messages_body,
    _messages_streamed,
    _messages_whole,
    {"anthropic-version": "2023-06-01"},
)


# --- Gemini itself -----------------------------------------------------------------------------------


def _gemini_path(model: str, stream: bool) -> str:
    return f"/v1beta/models/{model}:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")


def _gemini_step(step: Step) -> list[Json]:
    call = {"name": step.tool, "args": step.arguments}
    result = {"name": step.tool, "response": {"result": step.result}}
    return [
        {"role": "model", "parts": [{"text": step.said}, {"functionCall": call}]},
        {"role": "user", "parts": [{"functionResponse": result}]},
    ]


def _gemini_body(asked: Conversation, model: str, stream: bool) -> Json:
    contents: list[Json] = [{"role": "user", "parts": [{"text": asked.question}]}]
    contents += [content for step in asked.steps for content in _gemini_step(step)]
    if asked.last:
        contents.append({"role": "user", "parts": [{"text": asked.last}]})
    body: Json = {
        "systemInstruction": {"parts": [{"text": asked.system}]},
        "contents": contents,
        "generationConfig": {"maxOutputTokens": 4096},
    }
    if asked.tools:
        functions = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
            for tool in asked.tools
        ]
        body["tools"] = [{"functionDeclarations": functions}]
    return body


def _gemini_streamed(events: Iterable[bytes]) -> Reading:
    readings = list(map(_gemini_whole, _documents(events)))
    return Reading("".join(reading.text for reading in readings), readings[-1].ended)


def _gemini_whole(answer: Any) -> Reading:
    candidate = answer["candidates"][0]
    texts = [part["text"] for part in candidate["content"]["parts"]]
    return Reading("".join(texts), candidate.get("finishReason") == "STOP")


GEMINI = Protocol("gemini", _gemini_path, _gemini_body, _gemini_streamed, _gemini_whole)
