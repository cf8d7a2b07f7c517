"""Converts the conversation of a Messages request to Gemini contents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from bridge.gemini.hosted_tools import HostedCall, hosted_part
from bridge.gemini.summary_part import is_summary_turn, summary_turn
from bridge.gemini.types import MODEL, USER, Content, FunctionCall, JsonObject, Part
from bridge.protocols.anthropic_messages import executed_code, mcp
from bridge.protocols.anthropic_messages.blocks import block_parts, blocks, content_parts, tool_result_part
from bridge.protocols.anthropic_messages.compaction import BLOCK, misplaced, read_block
from bridge.protocols.anthropic_messages.computer_toolset import function_name
from bridge.protocols.anthropic_messages.grounded import IMAGE_NOTE
from bridge.protocols.anthropic_messages.lost_fields import lost_block_fields
from bridge.protocols.carried_signatures import read_thought
from bridge.protocols.content_parts import only_texts, reminders, system_content
from bridge.protocols.json_reading import invalid_field, lookup_by, optional, required
from bridge.protocols.summary_seal import StandsFor, SummarySeal

#: Claude Code's first line. It differs for each conversation, so Gemini's prefix cache would never match.
BILLING_LINE = "x-anthropic-billing-header:"

#: Results of a search. Dropped: the text after them has the results, and Gemini never produced these blocks.
SEARCH_RESULTS = ("web_search_tool_result", "web_fetch_tool_result")
SEARCH_TOOLS = ("web_search", "web_fetch")
CODE_RESULTS = ("code_execution_tool_result", "bash_code_execution_tool_result")
#: Blocks that only Anthropic's servers produce and understand.
SERVER_TOOL_BLOCKS = (
    "advisor_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "container_upload",
    "fallback",
)


class AnthropicMessages:
    def __init__(self, seal: SummarySeal | None = None) -> None:
        self.contents: list[Content] = []
        self.losses: list[str] = []
        self._seal = seal or SummarySeal()
        self._system: list[str] = []
        self._call_names: dict[str, str] = {}

    @property
    def system(self) -> Content | None:
        return system_content(self._system)

    def instruct(self, system: Any) -> None:
        if system is None:
            return
        texts = only_texts(content_parts(system, "system"), "system")
        self._instruct(_without_billing(text) for text in texts)

    def _instruct(self, texts: Iterable[str]) -> None:
        self._system += [text for text in texts if text.strip()]

    def add(self, message: JsonObject, path: str) -> None:
        lookup_by(message, "role", self._ROLES, path)(self, message, path)

    def _instruction(self, message: JsonObject, path: str) -> None:
        texts = only_texts(content_parts(message.get("content"), f"{path}.content"), f"{path}.content")
        if self.contents:
            self.contents.append(reminders(texts))
        else:
            self._instruct(texts)

    def _user(self, message: JsonObject, path: str) -> None:
        content, where = message.get("content"), f"{path}.content"
        if content in ("", []):
            raise invalid_field("must not be empty", where)
        if isinstance(content, str):
            parts = [Part(content)]
        else:
            content = self._after_compaction(content, where)
            parts = [part for at, block in blocks(content, where) for part in self._user_block(block, at)]
        self.contents.append(Content(USER, tuple(parts)))

    def _user_block(self, block: JsonObject, path: str) -> list[Part]:
        if block.get("type") == BLOCK:
            return []
        self.losses += lost_block_fields(block)
        if block.get("type") != "tool_result":
            return block_parts(block, path)
        return [tool_result_part(block, self._call_names.get(str(block.get("tool_use_id")), ""), path)]

    def _assistant(self, message: JsonObject, path: str) -> None:
        content, where = message.get("content"), f"{path}.content"
        if isinstance(content, str):
            self.contents.append(Content(MODEL, (Part(content),)))
            return
        message_reader = _AssistantMessage(self.losses)
        for at, block in blocks(self._after_compaction(content, where), where):
            message_reader.add(block, at)
        self._call_names.update((call.id or "", call.name) for call in message_reader.content().calls())
        self.contents.append(message_reader.content())

    def _after_compaction(self, content: Any, path: str) -> Any:
        """The blocks after the last summary of the message, which becomes a turn of its own."""
        for index in reversed(range(len(content)) if isinstance(content, list) else ()):
            block = content[index]
            is_summary = isinstance(block, dict) and block.get("type") == BLOCK
            if is_summary and self._compaction(block, index, f"{path}[{index}]"):
                return content[index + 1 :]
        return content

    def _compaction(self, block: JsonObject, index: int, path: str) -> bool:
        """Whether the summary stands for everything before it."""
        read = read_block(block, path, self._seal)
        if isinstance(read, str):
            self.losses.append(read)
        if read is None or isinstance(read, str):
            return False
        text, stands_for = read
        if stands_for is StandsFor.NOTHING_ELSE and (self.contents or index):
            raise misplaced(path, is_second=any(map(is_summary_turn, self.contents)))
        self.contents = [summary_turn(text)]
        return True

    #: A class attribute: in each object it would be a reference cycle.
    _ROLES: ClassVar[Mapping[str, Callable[[AnthropicMessages, JsonObject, str], None]]] = {
        "user": _user,
        "assistant": _assistant,
        "system": _instruction,
    }


def _without_billing(text: str) -> str:
    """The text without the billing line. Some clients send all instructions as one text that begins with
    it."""
    return text.partition("\n")[2] if text.startswith(BILLING_LINE) else text


class _AssistantMessage:
    """One assistant message, block by block."""

    def __init__(self, losses: list[str]) -> None:
        self._parts: list[Part] = []
        self._losses = losses
        self._for_next_call: str | None = None
        self._hosted_calls: dict[str, HostedCall] = {}

    def content(self) -> Content:
        return Content(MODEL, tuple(self._parts))

    def add(self, block: JsonObject, path: str) -> None:
        lookup_by(block, "type", self._READERS, path)(self, block, path)

    def _text(self, block: JsonObject, path: str) -> None:
        text = required(block, "text", str, path)
        if not text.startswith(IMAGE_NOTE):  # a note for the user, which Gemini did not write
            self._parts.append(Part(text))

    def _thinking(self, block: JsonObject, path: str) -> None:
        thought = required(block, "thinking", str, path)
        signature = optional(block, "signature", str, path) or ""
        parts, self._for_next_call = read_thought(thought, signature)
        self._parts += parts

    def _redacted(self, _block: JsonObject, _path: str) -> None:
        self._losses.append("messages.redacted_thinking")  # encrypted by another vendor

    def _search_result(self, _block: JsonObject, _path: str) -> None:
        pass

    def _server_tool_use(self, block: JsonObject, path: str) -> None:
        name = optional(block, "name", str, path)
        if name in (executed_code.TOOL, executed_code.BASH_TOOL):
            self._parts.append(Part(executed_code.read_call(block, path), signature=self._for_next_call))
            self._for_next_call = None
        elif name not in SEARCH_TOOLS:
            self._losses.append("messages.server_tool_use")

    def _code_result(self, block: JsonObject, path: str) -> None:
        if "encrypted_stdout" in required(block, "content", dict, path):
            self._losses.append("messages.encrypted_stdout")
        self._parts.append(Part(executed_code.read_result(block, path)))

    def _mcp_call(self, block: JsonObject, path: str) -> None:
        call = mcp.read_call(block, path)
        self._hosted_calls[call.id] = call
        self._parts.append(hosted_part(call, self._for_next_call))
        self._for_next_call = None

    def _mcp_result(self, block: JsonObject, path: str) -> None:
        result = mcp.read_result(block, self._hosted_calls, path)
        if result is None:
            self._losses.append("messages.mcp_tool_result")
        else:
            self._parts.append(hosted_part(result))

    def _compaction(self, _block: JsonObject, _path: str) -> None:
        """Read before, or without a summary."""

    def _server_tool(self, block: JsonObject, _path: str) -> None:
        self._losses.append(f"messages.{block['type']}")

    def _tool_use(self, block: JsonObject, path: str) -> None:
        call = FunctionCall(
            function_name(required(block, "name", str, path), optional(block, "toolset_name", str, path)),
            optional(block, "input", dict, path) or {},
            required(block, "id", str, path),
        )
        self._parts.append(Part(call, signature=self._for_next_call))
        self._for_next_call = None

    #: A class attribute: in each object it would be a reference cycle.
    _READERS: ClassVar[Mapping[str, Callable[[_AssistantMessage, JsonObject, str], None]]] = {
        "text": _text,
        "thinking": _thinking,
        "redacted_thinking": _redacted,
        "tool_use": _tool_use,
        "server_tool_use": _server_tool_use,
        mcp.CALL: _mcp_call,
        mcp.RESULT: _mcp_result,
        BLOCK: _compaction,
        **dict.fromkeys(SEARCH_RESULTS, _search_result),
        **dict.fromkeys(CODE_RESULTS, _code_result),
        **dict.fromkeys(SERVER_TOOL_BLOCKS, _server_tool),
    }
