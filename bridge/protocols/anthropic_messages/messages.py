"""The conversation of a Messages request to Gemini contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from bridge.gemini.types import MODEL, USER, Content, FunctionCall, JsonObject, Part
from bridge.protocols.anthropic_messages.blocks import block_parts, blocks, content_parts, tool_result_part
from bridge.protocols.carried_signatures import read_signature
from bridge.protocols.content import only_texts, system_content
from bridge.protocols.reading import chosen_by, needed, optional

#: A line that Claude Code puts first, with a number of its own for each conversation: it would keep Gemini
#: from ever finding the rest in its cache.
BILLING_LINE = "x-anthropic-billing-header:"

REMINDER = "<system-reminder>\n{}\n</system-reminder>"

#: What a server tool did is told by the text that follows it; Gemini itself never said these blocks.
SERVER_TOOL_BLOCKS = ("server_tool_use", "web_search_tool_result", "web_fetch_tool_result")


class Messages:
    def __init__(self) -> None:
        self.contents: list[Content] = []
        self.losses: list[str] = []
        self._system: list[str] = []
        self._call_names: dict[str, str] = {}

    @property
    def system(self) -> Content | None:
        return system_content(self._system)

    def instruct(self, system: Any) -> None:
        if system is None:
            return
        texts = only_texts(content_parts(system, "system"), "system")
        self._system += [text for text in texts if text.strip() and not text.startswith(BILLING_LINE)]

    def add(self, message: JsonObject, path: str) -> None:
        chosen_by(message, "role", self._ROLES, path)(self, message, path)

    def _instruction(self, message: JsonObject, path: str) -> None:
        """In the middle of a conversation it stays where it is, marked as agents mark their reminders:
        moved into the system instruction it would change the prefix that Gemini has cached."""
        texts = only_texts(content_parts(message.get("content"), f"{path}.content"), f"{path}.content")
        if not self.contents:
            self._system += texts
            return
        reminders = tuple(Part(REMINDER.format(text)) for text in texts if text.strip())
        self.contents.append(Content(USER, reminders))

    def _user(self, message: JsonObject, path: str) -> None:
        content, where = message.get("content"), f"{path}.content"
        if isinstance(content, str):
            parts = [Part(content)]
        else:
            parts = [part for at, block in blocks(content, where) for part in self._user_block(block, at)]
        self.contents.append(Content(USER, tuple(parts)))

    def _user_block(self, block: JsonObject, path: str) -> list[Part]:
        if block.get("type") != "tool_result":
            return block_parts(block, path)
        return [tool_result_part(block, self._call_names.get(str(block.get("tool_use_id")), ""), path)]

    def _assistant(self, message: JsonObject, path: str) -> None:
        content, where = message.get("content"), f"{path}.content"
        if isinstance(content, str):
            self.contents.append(Content(MODEL, (Part(content),)))
            return
        said = _Said(self.losses)
        for at, block in blocks(content, where):
            said.add(block, at)
        self._call_names.update((call.id or "", call.name) for call in said.content().calls())
        self.contents.append(said.content())

    #: In the class and not in each object, which would then hold on to itself.
    _ROLES: ClassVar[Mapping[str, Callable[[Messages, JsonObject, str], None]]] = {
        "user": _user,
        "assistant": _assistant,
        "system": _instruction,
    }


class _Said:
    """One assistant message, block by block."""

    def __init__(self, losses: list[str]) -> None:
        self._parts: list[Part] = []
        self._losses = losses
        self._for_next_call: str | None = None

    def content(self) -> Content:
        return Content(MODEL, tuple(self._parts))

    def add(self, block: JsonObject, path: str) -> None:
        chosen_by(block, "type", self._READERS, path)(self, block, path)

    def _text(self, block: JsonObject, path: str) -> None:
        self._parts.append(Part(needed(block, "text", str, path)))

    def _thinking(self, block: JsonObject, path: str) -> None:
        thought = needed(block, "thinking", str, path)
        own, self._for_next_call = read_signature(optional(block, "signature", str, path) or "")
        if thought or own:
            self._parts.append(Part(thought, thought=True, signature=own))

    def _redacted(self, _block: JsonObject, _path: str) -> None:
        self._losses.append("messages.redacted_thinking")  # another vendor's, and closed to everybody else

    def _server_tool(self, _block: JsonObject, _path: str) -> None:
        pass

    def _tool_use(self, block: JsonObject, path: str) -> None:
        call = FunctionCall(
            needed(block, "name", str, path),
            optional(block, "input", dict, path) or {},
            needed(block, "id", str, path),
        )
        self._parts.append(Part(call, signature=self._for_next_call))
        self._for_next_call = None

    #: In the class and not in each object, which would then hold on to itself.
    _READERS: ClassVar[Mapping[str, Callable[[_Said, JsonObject, str], None]]] = {
        "text": _text,
        "thinking": _thinking,
        "redacted_thinking": _redacted,
        "tool_use": _tool_use,
        **dict.fromkeys(SERVER_TOOL_BLOCKS, _server_tool),
    }
