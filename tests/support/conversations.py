"""For each protocol: a request that starts a conversation, and one that continues it after an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from bridge.gemini.types import EMPTY, FunctionCall, InlineData, OtherData, Part
from bridge.protocols.base import Caller

Parts = tuple[Part, ...]


def everything(parts: Parts) -> Parts:
    return parts


class Conversation(NamedTuple):
    opening: dict[str, Any]
    #: Opening and answer → next request; None: the protocol has no history.
    goes_on: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]] | None
    #: The parts of Gemini's content that the protocol can carry; anything else must be counted as a loss.
    seated: Callable[[Parts], Parts] = everything
    relies_on_vault: bool = False
    keeps_calls: bool = False  #: the client gets calls unchanged, with Gemini's ids or none
    #: Callers that get a different dialect of the same answer, by the name in their transcripts.
    callers: Mapping[str, Caller] = {"": Caller()}


def _chat_goes_on(opening: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    message = answer["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "fine"}
        for call in message.get("tool_calls") or ()
    ]
    more = [message, *results, {"role": "user", "content": "Go on."}]
    return {**opening, "messages": [*opening["messages"], *more]}


def _messages_goes_on(opening: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    calls = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": each, "content": "fine"} for each in calls]
    said = {"role": "assistant", "content": answer["content"]}
    more = [said, {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]}]
    return {**opening, "messages": [*opening["messages"], *more]}


def _text_unsigned(parts: Parts, *kept: type) -> Parts:
    """Text, thoughts, calls and the kept data. Neighbouring texts are joined: they lose their signatures."""
    seated: list[Part] = []
    before: Part | None = None
    for part in parts:
        if isinstance(part.data, str) and not part.thought:
            plain = Part(part.data)
            if before is not None and isinstance(before.data, str) and not before.thought:
                plain = Part(f"{seated.pop().data if seated else ''}{part.data}")
            seated += [plain] if plain.data else []
        elif isinstance(part.data, (FunctionCall, str, *kept)):
            seated.append(part)
        before = part
    return tuple(seated)


def _with_hosted_tools(parts: Parts) -> Parts:
    """Like `_text_unsigned`, with executed code and images."""
    return _text_unsigned(parts, OtherData, InlineData)


def _no_thought_at_the_end(parts: Parts) -> Parts:
    """Like `_text_unsigned`, with executed code, without a final thought after text."""
    seated = list(_text_unsigned(parts, OtherData))
    spoken = any(isinstance(part.data, str) and not part.thought for part in seated)
    while spoken and seated[-1].thought:
        seated.pop()
    return tuple(seated)


def _responses_goes_on(opening: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    calls = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
    results = [{"type": "function_call_output", "call_id": each, "output": "fine"} for each in calls]
    more = [*answer["output"], *results, {"role": "user", "content": "Go on."}]
    return {**opening, "input": [*opening["input"], *more]}


def _interactions_goes_on(opening: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    calls = [step["id"] for step in answer["steps"] if step["type"] == "function_call"]
    results = [{"type": "function_result", "call_id": each, "result": "fine"} for each in calls]
    more = [*answer["steps"], *results, {"type": "text", "text": "Go on."}]
    return {**opening, "input": [*opening["input"], *more]}


def _known_parts(parts: Parts) -> Parts:
    """All parts, without the parts and fields that the bridge does not know."""
    return tuple(replace(part, extra=EMPTY) for part in parts if part.data is not None)


def _native_goes_on(opening: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    said = answer["candidates"][0]["content"]
    calls = [part["functionCall"] for part in said["parts"] if "functionCall" in part]
    results = [{"functionResponse": {**call, "args": None, "response": {"output": "fine"}}} for call in calls]
    more = [said, {"role": "user", "parts": [*results, {"text": "Go on."}]}]
    return {**opening, "contents": [*opening["contents"], *more]}


CONVERSATIONS = {
    "openai_completions": Conversation(
        {
            "model": "gpt-3.5-turbo-instruct",
            "prompt": "Please do.",
            "suffix": " Thank you.",
            "n": 2,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        goes_on=None,
    ),
    "gemini_native": Conversation(
        {"contents": [{"role": "user", "parts": [{"text": "Please do."}]}]},
        _native_goes_on,
        keeps_calls=True,
        callers={
            "": Caller(path={"model": "gemini-test", "method": "streamGenerateContent"}, query={"alt": "sse"})
        },
    ),
    "gemini_interactions": Conversation(
        {
            "model": "gemini-flash",
            "input": [{"type": "user_input", "content": [{"type": "text", "text": "Please do."}]}],
            "generation_config": {"thinking_summaries": "auto"},
            "stream": True,
        },
        _interactions_goes_on,
        _known_parts,
    ),
    "openai_responses": Conversation(
        {
            "model": "gpt-5-codex",
            "input": [{"role": "user", "content": "Please do."}],
            "reasoning": {"summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "stream": True,
        },
        _responses_goes_on,
        _with_hosted_tools,
        callers={
            "": Caller(preferences={"dialect": "bridge"}),
            ".openai": Caller(preferences={"dialect": "openai"}),
            ".codex": Caller(preferences={"dialect": "codex"}),
        },
    ),
    "anthropic_messages": Conversation(
        {
            "model": "claude-opus-4-8",
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": "Please do."}],
            "thinking": {"type": "adaptive"},
            "stream": True,
        },
        _messages_goes_on,
        _no_thought_at_the_end,
        relies_on_vault=True,
    ),
    "openai_chat": Conversation(
        {
            "model": "gpt-5",
            "messages": [{"role": "user", "content": "Please do."}],
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        _chat_goes_on,
    ),
}
