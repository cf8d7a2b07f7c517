"""Gemini's contents as messages, without the details of any server.

Gemini's history may have calls without ids, and results in the same turn as texts. Here each call has an id,
each result is a message of its own right behind the calls, and media of results follow in a message of the
user.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import orjson

from bridge.gemini.types import (
    EMPTY,
    MODEL,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    JsonObject,
    OtherData,
    Part,
)

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"

#: The fields of a result that is only a text, in Gemini's history.
TEXT_FIELDS = ("result", "output")
_EXECUTED = {"executableCode": ("code", "```python\n"), "codeExecutionResult": ("output", "```\n")}

Media = InlineData | FileData
#: A text or a medium of a message, in the order of the parts.
Block = str | Media


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    name: str
    args: JsonObject


@dataclass(slots=True)
class Message:
    role: str
    blocks: list[Block] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    call_id: str = ""  #: of a result: the call that it answers
    name: str = ""  #: of a result: the tool

    @property
    def text(self) -> str:
        return "".join(block for block in self.blocks if isinstance(block, str))


def messages_of(system: Content | None, contents: Iterable[Content]) -> list[Message]:
    instruction = () if system is None else _blocks(system.parts)
    text = "\n\n".join(block for block in instruction if isinstance(block, str))
    messages = [Message(SYSTEM, [text])] if text else []
    pending = _PendingCalls()
    for content in contents:
        if content.role == MODEL:
            messages.append(_answer(content, pending))
        else:
            messages.extend(_questions(content, pending))
    return messages


class _PendingCalls:
    """The calls of the last answer that have no result yet, and the ids of calls that came without one."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: deque[Call] = deque()

    def open(self, calls: Iterable[FunctionCall]) -> list[Call]:
        opened = [Call(call.id or self._new_id(), call.name, call.args or EMPTY) for call in calls]
        self._waiting = deque(opened)
        return opened

    def _new_id(self) -> str:
        """The place in the history: the same in each request, so that the server can cache the prompt."""
        self._count += 1
        return f"call_{self._count}"

    def answered_by(self, response: FunctionResponse) -> str:
        """The id of the call that the response answers: the id it names, or else the first such call."""
        for call in self._waiting:
            if call.id == response.id or (response.id is None and call.name == response.name):
                self._waiting.remove(call)
                return call.id
        return response.id or self._new_id()


def _answer(content: Content, pending: _PendingCalls) -> Message:
    thoughts = [part.data for part in content.parts if part.thought and isinstance(part.data, str)]
    blocks = _blocks(part for part in content.parts if not part.thought)
    return Message(ASSISTANT, blocks, thoughts, pending.open(content.calls()))


def _questions(content: Content, pending: _PendingCalls) -> Iterator[Message]:
    media: list[Block] = []
    for part in content.parts:
        if isinstance(part.data, FunctionResponse):
            response = part.data
            yield Message(
                TOOL, [_result(response)], call_id=pending.answered_by(response), name=response.name
            )
            media.extend(response.media)
    if blocks := media + _blocks(content.parts):
        yield Message(USER, blocks)


def _result(response: FunctionResponse) -> str:
    """The result as text: servers accept no object. A result that is only a text stays that text."""
    if len(response.response) == 1:
        ((name, text),) = response.response.items()
        if name in TEXT_FIELDS and isinstance(text, str):
            return text
    return orjson.dumps(dict(response.response)).decode()


def _blocks(parts: Iterable[Part]) -> list[Block]:
    blocks: list[Block] = []
    for part in parts:
        if isinstance(part.data, str | InlineData | FileData):
            blocks.append(part.data)
        elif isinstance(part.data, OtherData):
            blocks.extend(_executed(part.data))
    return blocks


def _executed(data: OtherData) -> Iterator[str]:
    """Code that Gemini ran in an earlier turn, as text: the answer after it refers to it."""
    value = data.value if isinstance(data.value, dict) else {}
    for name, opening in (("code", "```python\n"), ("output", "```\n")):
        if isinstance(text := value.get(name), str) and data.field in (
            "executableCode",
            "codeExecutionResult",
        ):
            yield f"\n{opening}{text}\n```\n"
