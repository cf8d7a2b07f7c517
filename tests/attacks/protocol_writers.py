"""Writers that express the same turns, tools and settings in each protocol's request format."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

Json = dict[str, Any]

PICTURE = "iVBORw0KGgo="


class Call(NamedTuple):
    id: str
    name: str
    args: Json
    signature: str | None = None
    result: str = "fine"


class ProtocolWriter(ABC):
    """A writer for one protocol. Turns are lists of the protocol's own conversation items."""

    @abstractmethod
    def user(self, *texts: str, images: int = 0) -> list[Json]: ...

    @abstractmethod
    def model(self, *texts: str) -> list[Json]: ...

    @abstractmethod
    def thought(self, text: str, signature: str) -> list[Json]: ...

    @abstractmethod
    def calls(self, calls: Iterable[Call]) -> list[Json]: ...

    @abstractmethod
    def results(self, calls: Iterable[Call]) -> list[Json]: ...

    @abstractmethod
    def tool(self, name: str, schema: Json) -> Json: ...

    @abstractmethod
    def body(
        self,
        turns: Sequence[Json],
        tools: Sequence[Json] = (),
        system: Sequence[str] = (),
        stop: Sequence[str] = (),
        metadata: Json | None = None,
    ) -> Json: ...


class Chat(ProtocolWriter):
    def user(self, *texts: str, images: int = 0) -> list[Json]:
        url = {"url": f"data:image/png;base64,{PICTURE}"}
        said = [{"type": "text", "text": text} for text in texts]
        shown = [{"type": "image_url", "image_url": url}] * images
        return [{"role": "user", "content": [*said, *shown]}]

    def model(self, *texts: str) -> list[Json]:
        return [{"role": "assistant", "content": [{"type": "text", "text": text} for text in texts]}]

    def thought(self, text: str, signature: str) -> list[Json]:
        layout = [{"text": len(text), "thought": True, "thoughtSignature": signature}]
        extra = {"google": {"parts": layout}}
        return [
            {"role": "assistant", "reasoning_content": text, "content": None, "extra_content": extra},
        ]

    def calls(self, calls: Iterable[Call]) -> list[Json]:
        made = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.args)},
                "extra_content": {"google": {"thought_signature": call.signature}},
            }
            for call in calls
        ]
        return [{"role": "assistant", "content": None, "tool_calls": made}]

    def results(self, calls: Iterable[Call]) -> list[Json]:
        return [{"role": "tool", "tool_call_id": call.id, "content": call.result} for call in calls]

    def tool(self, name: str, schema: Json) -> Json:
        return {"type": "function", "function": {"name": name, "parameters": schema}}

    def body(
        self,
        turns: Sequence[Json],
        tools: Sequence[Json] = (),
        system: Sequence[str] = (),
        stop: Sequence[str] = (),
        metadata: Json | None = None,
    ) -> Json:
        told = [{"role": "system", "content": text} for text in system]
        wishes = {"tools": list(tools), "stop": list(stop), "metadata": metadata or {}}
        return {"model": "gpt-5", "messages": [*told, *turns], **{k: v for k, v in wishes.items() if v}}


class Responses(ProtocolWriter):
    def user(self, *texts: str, images: int = 0) -> list[Json]:
        said = [{"type": "input_text", "text": text} for text in texts]
        shown = [{"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}] * images
        return [{"role": "user", "content": [*said, *shown]}]

    def model(self, *texts: str) -> list[Json]:
        return [{"role": "assistant", "content": [{"type": "output_text", "text": text} for text in texts]}]

    def thought(self, text: str, signature: str) -> list[Json]:
        summary = [{"type": "summary_text", "text": text}]
        return [{"type": "reasoning", "summary": summary, "encrypted_content": signature}]

    def calls(self, calls: Iterable[Call]) -> list[Json]:
        made: list[Json] = []
        for call in calls:
            if call.signature:
                made += [{"type": "reasoning", "summary": [], "encrypted_content": f"next:{call.signature}"}]
            named = {"call_id": call.id, "name": call.name, "arguments": json.dumps(call.args)}
            made.append({"type": "function_call", **named})
        return made

    def results(self, calls: Iterable[Call]) -> list[Json]:
        return [{"type": "function_call_output", "call_id": call.id, "output": call.result} for call in calls]

    def tool(self, name: str, schema: Json) -> Json:
        return {"type": "function", "name": name, "parameters": schema}

    def body(
        self,
        turns: Sequence[Json],
        tools: Sequence[Json] = (),
        system: Sequence[str] = (),
        stop: Sequence[str] = (),
        metadata: Json | None = None,
    ) -> Json:
        told = [{"role": "developer", "content": text} for text in system]
        unknown = {"stop": list(stop)} if stop else {}  # the protocol has no stop sequences
        wishes = {"tools": list(tools), "metadata": metadata or {}, **unknown}
        return {"model": "gpt-5", "input": [*told, *turns], **wishes}


class Messages(ProtocolWriter):
    def user(self, *texts: str, images: int = 0) -> list[Json]:
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
        said = [{"type": "text", "text": text} for text in texts]
        return [{"role": "user", "content": [*said, *[{"type": "image", "source": source}] * images]}]

    def model(self, *texts: str) -> list[Json]:
        return [{"role": "assistant", "content": [{"type": "text", "text": text} for text in texts]}]

    def thought(self, text: str, signature: str) -> list[Json]:
        block = {"type": "thinking", "thinking": text, "signature": signature}
        return [{"role": "assistant", "content": [block]}]

    def calls(self, calls: Iterable[Call]) -> list[Json]:
        blocks: list[Json] = []
        for call in calls:
            if call.signature:
                blocks += [{"type": "thinking", "thinking": "", "signature": f"next:{call.signature}"}]
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.args})
        return [{"role": "assistant", "content": blocks}]

    def results(self, calls: Iterable[Call]) -> list[Json]:
        blocks = [{"type": "tool_result", "tool_use_id": call.id, "content": call.result} for call in calls]
        return [{"role": "user", "content": blocks}]

    def tool(self, name: str, schema: Json) -> Json:
        return {"name": name, "input_schema": schema}

    def body(
        self,
        turns: Sequence[Json],
        tools: Sequence[Json] = (),
        system: Sequence[str] = (),
        stop: Sequence[str] = (),
        metadata: Json | None = None,
    ) -> Json:
        told = [{"type": "text", "text": text} for text in system]
        user = {"user_id": json.dumps({"session_id": "s", **(metadata or {})}), **(metadata or {})}
        wishes = {"tools": list(tools), "stop_sequences": list(stop), "system": told, "metadata": user}
        given = {key: value for key, value in wishes.items() if value}
        return {"model": "claude-opus-4-8", "max_tokens": 9, "messages": list(turns), **given}


class Native(ProtocolWriter):
    def user(self, *texts: str, images: int = 0) -> list[Json]:
        shown = [{"inline_data": {"mime_type": "image/png", "data": PICTURE}}] * images
        return [{"role": "user", "parts": [*({"text": text} for text in texts), *shown]}]

    def model(self, *texts: str) -> list[Json]:
        return [{"role": "model", "parts": [{"text": text} for text in texts]}]

    def thought(self, text: str, signature: str) -> list[Json]:
        return [{"role": "model", "parts": [{"text": text, "thought": True, "thoughtSignature": signature}]}]

    def calls(self, calls: Iterable[Call]) -> list[Json]:
        parts: list[Json] = []
        for call in calls:
            part: Json = {"functionCall": {"id": call.id, "name": call.name, "args": call.args}}
            parts.append({**part, "thoughtSignature": call.signature} if call.signature else part)
        return [{"role": "model", "parts": parts}]

    def results(self, calls: Iterable[Call]) -> list[Json]:
        given = [
            {"functionResponse": {"id": call.id, "name": call.name, "response": {"result": call.result}}}
            for call in calls
        ]
        return [{"role": "user", "parts": given}]

    def tool(self, name: str, schema: Json) -> Json:
        return {"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}

    def body(
        self,
        turns: Sequence[Json],
        tools: Sequence[Json] = (),
        system: Sequence[str] = (),
        stop: Sequence[str] = (),
        metadata: Json | None = None,
    ) -> Json:
        wishes = {
            "tools": list(tools),
            "system_instruction": {"parts": [{"text": text} for text in system]} if system else None,
            "generationConfig": {"stopSequences": list(stop)} if stop else None,
            "labels": metadata,
        }
        return {"contents": list(turns), **{key: value for key, value in wishes.items() if value}}


class Interactions(ProtocolWriter):
    def user(self, *texts: str, images: int = 0) -> list[Json]:
        said = [{"type": "text", "text": text} for text in texts]
        shown = [{"type": "image", "mime_type": "image/png", "data": PICTURE}] * images
        return [{"type": "user_input", "content": [*said, *shown]}]

    def model(self, *texts: str) -> list[Json]:
        return [{"type": "model_output", "content": [{"type": "text", "text": text} for text in texts]}]

    def thought(self, text: str, signature: str) -> list[Json]:
        return [{"type": "thought", "summary": [{"type": "text", "text": text}], "signature": signature}]

    def calls(self, calls: Iterable[Call]) -> list[Json]:
        steps: list[Json] = []
        for call in calls:
            step = {"type": "function_call", "id": call.id, "name": call.name, "arguments": call.args}
            steps.append({**step, "signature": call.signature} if call.signature else step)
        return steps

    def results(self, calls: Iterable[Call]) -> list[Json]:
        return [{"type": "function_result", "call_id": call.id, "result": call.result} for call in calls]

    def tool(self, name: str, schema: Json) -> Json:
        return {"type": "function", "name": name, "parameters": schema}

    def body(
        self,
        turns: Sequence[Json],
        tools: Sequence[Json] = (),
        system: Sequence[str] = (),
        stop: Sequence[str] = (),
        metadata: Json | None = None,
    ) -> Json:
        wishes = {
            "tools": list(tools),
            "system_instruction": "\n".join(system),
            "generation_config": {"stop_sequences": list(stop)} if stop else None,
            "labels": metadata,
        }
        return {
            "model": "gemini-flash",
            "input": list(turns),
            **{key: value for key, value in wishes.items() if value},
        }


class Completions(ProtocolWriter):
    """One text: the texts of all turns stand in one prompt."""

    def user(self, *texts: str, images: int = 0) -> list[Json]:
        return [{"text": text} for text in texts]

    def model(self, *texts: str) -> list[Json]:
        return self.user(*texts)

    def thought(self, text: str, signature: str) -> list[Json]:
        return self.user(text)

    def calls(self, calls: Iterable[Call]) -> list[Json]:
        return [{"text": json.dumps(call.args)} for call in calls]

    def results(self, calls: Iterable[Call]) -> list[Json]:
        return [{"text": call.result} for call in calls]

    def tool(self, name: str, schema: Json) -> Json:
        return {"name": name, "parameters": schema}

    def body(
        self,
        turns: Sequence[Json],
        tools: Sequence[Json] = (),
        system: Sequence[str] = (),
        stop: Sequence[str] = (),
        metadata: Json | None = None,
    ) -> Json:
        said = "\n".join(turn["text"] for turn in turns)
        unknown = {"tools": list(tools), "metadata": metadata or {}}  # the protocol has neither
        wishes = {"suffix": "<|cursor|>".join(system), "stop": list(stop), **unknown}
        return {"model": "gpt-5", "prompt": f"{said}<|cursor_|>", **{k: v for k, v in wishes.items() if v}}


#: A protocol without a writer has no growth tests, and `test_growth.py` fails.
PROTOCOL_CLIENTS: dict[str, ProtocolWriter] = {
    "openai_chat": Chat(),
    "openai_responses": Responses(),
    "openai_completions": Completions(),
    "anthropic_messages": Messages(),
    "gemini_native": Native(),
    "gemini_interactions": Interactions(),
}
