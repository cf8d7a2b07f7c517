"""Simulated clients with growing conversations, and with the real clients' habits that could change a prefix.

The request formats were observed with Codex, Claude Code, Gemini CLI and SDKs. The test supplies the user's
messages and the tool results; each client builds its history from the answers that it receives.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from itertools import count
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4

import requests

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
#: One tool has a name that Gemini does not accept.
TOOLS = ("run", "files/read", "apply")


class Call(NamedTuple):
    name: str
    id: str | None
    args: dict[str, Any]


class GrowingClient(ABC):
    path: ClassVar[str]
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, address: str, model: str) -> None:
        self._address = address
        self._model = model

    def send(self) -> list[Call]:
        """Request the next answer and add it to the history."""
        response = requests.post(
            self._address + self._path(), json=self._body(), headers=self.headers, timeout=30
        )
        assert response.status_code == 200, response.text
        return self._take(response.json())

    def _path(self) -> str:
        return self.path

    @abstractmethod
    def user_says(self, text: str) -> None: ...

    @abstractmethod
    def tool_returns(self, calls: list[Call], results: list[str]) -> None: ...

    @abstractmethod
    def _body(self) -> dict[str, Any]: ...

    @abstractmethod
    def _take(self, answer: dict[str, Any]) -> list[Call]: ...


class Chat(GrowingClient):
    """Like SDKs that send back the message they received."""

    path = "/v1/chat/completions"

    def __init__(self, address: str, model: str) -> None:
        super().__init__(address, model)
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": "You write code."}]

    def user_says(self, text: str) -> None:
        if len(self._messages) > 1:
            self._messages.append({"role": "system", "content": f"The mode is now: {text}"})
        self._messages.append({"role": "user", "content": text})

    def tool_returns(self, calls: list[Call], results: list[str]) -> None:
        for call, result in zip(calls, results, strict=True):
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    def _body(self) -> dict[str, Any]:
        functions = [{"name": name, "description": f"To {name}.", "parameters": SCHEMA} for name in TOOLS]
        tools = [{"type": "function", "function": each} for each in functions]
        thinking = {"reasoning_effort": "low", "tool_choice": "auto"}
        return {"model": self._model, "messages": self._messages, "tools": tools, **thinking}

    def _take(self, answer: dict[str, Any]) -> list[Call]:
        message = answer["choices"][0]["message"]
        self._messages.append(self._kept(message))
        return [
            Call(each["function"]["name"], each["id"], json.loads(each["function"]["arguments"]))
            for each in message.get("tool_calls") or ()
        ]

    def _kept(self, message: dict[str, Any]) -> dict[str, Any]:
        return message


class PlainChat(Chat):
    """Like clients that keep only known fields: signatures must come from the store."""

    def _kept(self, message: dict[str, Any]) -> dict[str, Any]:
        calls = [
            {name: call[name] for name in ("id", "type", "function")}
            for call in message.get("tool_calls") or ()
        ]
        said = {"role": "assistant", "content": message.get("content")}
        return {**said, "tool_calls": calls} if calls else said


class Codex(GrowingClient):
    """The prompt as developer messages, new ones when a mode changes, images in results; the whole history
    in each request."""

    path = "/v1/responses"
    headers: ClassVar = {"originator": "codex_exec", "user-agent": "codex_exec/0.169.0"}
    include: ClassVar[list[str]] = ["reasoning.encrypted_content"]

    def __init__(self, address: str, model: str) -> None:
        super().__init__(address, model)
        self._session = str(uuid4())
        self.headers = {**self.headers, "session-id": self._session, "thread-id": self._session}
        self._turns = count()
        self._began = False
        self._items: list[dict[str, Any]] = [
            _message("developer", "You are a coding agent."),
            _message("developer", "The rules.", "The skills."),
            _message("user", "<environment_context>\n  <cwd>/home</cwd>\n</environment_context>"),
        ]

    def user_says(self, text: str) -> None:
        if self._began:
            self._items.append(
                _message("developer", f"<permissions>\nThe mode is now {text}\n</permissions>")
            )
        self._items.append(_message("user", text))
        self._began = True

    def tool_returns(self, calls: list[Call], results: list[str]) -> None:
        for call, result in zip(calls, results, strict=True):
            picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
            shown: Any = [{"type": "input_text", "text": result}, picture] if "picture" in result else result
            self._items.append({"type": "function_call_output", "call_id": call.id, "output": shown})

    def _body(self) -> dict[str, Any]:
        plain = {"type": "function", "strict": False, "parameters": SCHEMA}
        tools = [{**plain, "name": name, "description": f"To {name}."} for name in TOOLS]
        spaces = [{"type": "namespace", "name": "mcp", "tools": [{**plain, "name": "add"}]}]
        return {
            "model": self._model,
            "input": self._items,
            "tools": [*tools, *spaces],
            "tool_choice": "auto",
            "reasoning": {"effort": "medium", "summary": "auto"},
            "store": False,
            "include": self.include,
            "prompt_cache_key": self._session,
            "client_metadata": {"turn_id": str(next(self._turns))},
        }

    def _take(self, answer: dict[str, Any]) -> list[Call]:
        self._items += [item for item in answer["output"] if self._keeps(item)]
        return _calls(answer)

    def _keeps(self, item: dict[str, Any]) -> bool:
        return True


class WithoutReasoning(Codex):
    """Like SDKs that neither request reasoning nor send it back."""

    headers: ClassVar = {"user-agent": "OpenAI/Python 3.49.0"}
    include: ClassVar[list[str]] = []

    def _keeps(self, item: dict[str, Any]) -> bool:
        return bool(item["type"] != "reasoning")


class Chained(Codex):
    """Sends only the new items and the id of the previous answer."""

    headers: ClassVar = {"user-agent": "OpenAI/Python 3.49.0"}
    include: ClassVar[list[str]] = []
    _previous: str | None = None

    def _body(self) -> dict[str, Any]:
        body = {**super()._body(), "store": True, "instructions": "You write code."}
        return {**body, "previous_response_id": self._previous} if self._previous else body

    def _take(self, answer: dict[str, Any]) -> list[Call]:
        self._items, self._previous = [], answer["id"]
        return _calls(answer)


class ClaudeCode(GrowingClient):
    """An attribution that changes with each request, cache marks that move to the newest message,
    reminders with their own role, results as texts and as blocks, and thinking sent back unchanged."""

    path = "/v1/messages"
    headers: ClassVar = {
        "anthropic-version": "2023-06-01",
        "user-agent": "claude-cli/2.1.327 (external, cli)",
    }
    thinking: ClassVar[dict[str, str] | None] = {"type": "adaptive"}

    def __init__(self, address: str, model: str) -> None:
        super().__init__(address, model)
        self.headers = {**self.headers, "X-Claude-Code-Session-Id": str(uuid4())}
        self._requests = count(1)
        self._messages: list[dict[str, Any]] = []

    def user_says(self, text: str) -> None:
        reminder = {"type": "text", "text": f"<system-reminder>\nAbout {text}\n</system-reminder>"}
        self._messages.append({"role": "user", "content": [reminder, {"type": "text", "text": text}]})
        self._messages.append({"role": "system", "content": "# Environment\nA machine."})

    def tool_returns(self, calls: list[Call], results: list[str]) -> None:
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        blocks = []
        for call, result in zip(calls, results, strict=True):
            shown: Any = [{"type": "text", "text": result}, picture] if "picture" in result else result
            blocks.append({"type": "tool_result", "tool_use_id": call.id, "content": shown})
        self._messages.append({"role": "user", "content": blocks})

    def _body(self) -> dict[str, Any]:
        billing = f"x-anthropic-billing-header: cc_version=2.1.327; cch={next(self._requests):05x};"
        body = {
            "model": self._model,
            "messages": [*self._messages[:-1], _marked(self._messages[-1])],
            "system": [_text(billing), _marked_text("You are an agent."), _marked_text("Be brief.")],
            "tools": self._tools(),
            "metadata": {"user_id": json.dumps({"device_id": "d", "session_id": str(uuid4())})},
            "max_tokens": 32000,
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        }
        return {**body, "thinking": self.thinking} if self.thinking else body

    def _tools(self) -> list[dict[str, Any]]:
        return [{"name": name, "description": f"To {name}.", "input_schema": SCHEMA} for name in TOOLS]

    def _take(self, answer: dict[str, Any]) -> list[Call]:
        self._messages.append({"role": "assistant", "content": answer["content"]})
        called = (block for block in answer["content"] if block["type"] == "tool_use")
        return [Call(block["name"], block["id"], block["input"]) for block in called]


class WithoutThinking(ClaudeCode):
    thinking: ClassVar[dict[str, str] | None] = None


class SearchingTools(ClaudeCode):
    """Declares a tool after its search has found it, sorted among the others."""

    def __init__(self, address: str, model: str) -> None:
        super().__init__(address, model)
        self._found: list[str] = []

    def search_finds(self, call: Call, *names: str) -> None:
        self._found += names
        content = [{"type": "tool_reference", "tool_name": name} for name in names]
        result = {"type": "tool_result", "tool_use_id": call.id, "content": content}
        self._messages.append({"role": "user", "content": [result]})

    def _tools(self) -> list[dict[str, Any]]:
        placeholder = {"name": "placeholder", "input_schema": SCHEMA, "defer_loading": True}
        found = [{"name": name, "input_schema": SCHEMA, "defer_loading": True} for name in self._found]
        return sorted([*super()._tools(), *found, placeholder], key=lambda tool: str(tool["name"]))


class GeminiCli(GrowingClient):
    """Gemini's own contents, sent back unchanged."""

    headers: ClassVar = {"x-goog-api-client": "google-genai-sdk/1.30.0 gl-node/v20"}

    def __init__(self, address: str, model: str) -> None:
        super().__init__(address, model)
        self._contents: list[dict[str, Any]] = []

    def _path(self) -> str:
        return f"/v1beta/models/{self._model}:generateContent"

    def user_says(self, text: str) -> None:
        self._contents.append({"role": "user", "parts": [{"text": text}]})

    def tool_returns(self, calls: list[Call], results: list[str]) -> None:
        parts = []
        for call, result in zip(calls, results, strict=True):
            answered = {"name": call.name, "response": {"output": result}}
            parts.append({"functionResponse": {**answered, "id": call.id} if call.id else answered})
        self._contents.append({"role": "user", "parts": parts})

    def _body(self) -> dict[str, Any]:
        declared = [{"name": name, "parametersJsonSchema": SCHEMA} for name in ("run", "read", "apply")]
        return {
            "contents": self._contents,
            "systemInstruction": {"role": "user", "parts": [{"text": "You are an agent."}]},
            "tools": [{"functionDeclarations": declared}],
            "generationConfig": {"temperature": 0, "thinkingConfig": {"includeThoughts": True}},
        }

    def _take(self, answer: dict[str, Any]) -> list[Call]:
        content = answer["candidates"][0]["content"]
        self._contents.append(content)
        called = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        return [Call(each["name"], each.get("id"), each["args"]) for each in called]


class Interactions(GrowingClient):
    """Google's newer SDKs: steps, sent back unchanged."""

    path = "/v1beta/interactions"

    def __init__(self, address: str, model: str) -> None:
        super().__init__(address, model)
        self._steps: list[dict[str, Any]] = []

    def user_says(self, text: str) -> None:
        self._steps.append({"type": "user_input", "content": [{"type": "text", "text": text}]})

    def tool_returns(self, calls: list[Call], results: list[str]) -> None:
        self._steps += [
            {"type": "function_result", "name": call.name, "call_id": call.id, "result": result}
            for call, result in zip(calls, results, strict=True)
        ]

    def _body(self) -> dict[str, Any]:
        return {
            "model": self._model,
            "input": self._steps,
            "store": False,
            "system_instruction": "You are an agent.",
            "tools": [{"type": "function", "name": name, "parameters": SCHEMA} for name in ("run", "read")],
        }

    def _take(self, answer: dict[str, Any]) -> list[Call]:
        self._steps += answer["steps"]
        called = [step for step in answer["steps"] if step["type"] == "function_call"]
        return [Call(step["name"], step["id"], step["arguments"]) for step in called]


CLIENTS: tuple[type[GrowingClient], ...] = (
    Chat,
    PlainChat,
    Codex,
    WithoutReasoning,
    Chained,
    ClaudeCode,
    WithoutThinking,
    GeminiCli,
    Interactions,
)


def _message(role: str, *texts: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "role": role, "content": content}


def _calls(answer: dict[str, Any]) -> list[Call]:
    called = (item for item in answer["output"] if item["type"] == "function_call")
    return [Call(item["name"], item["call_id"], json.loads(item["arguments"])) for item in called]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _marked_text(text: str) -> dict[str, Any]:
    return {**_text(text), "cache_control": {"type": "ephemeral"}}


def _marked(message: dict[str, Any]) -> dict[str, Any]:
    """Return the newest message like Claude Code: a text becomes a block with a cache mark."""
    content = message["content"]
    blocks = [_text(content)] if isinstance(content, str) else content
    return {**message, "content": [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]}
