"""Tool calls in the XML form of Qwen-Coder: <function=NAME><parameter=KEY>value</parameter></function>.

The values are raw text, which may itself contain tags or a whole call. So a closing tag counts only if the
text around it has the form of a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bridge.gemini.types import FunctionCall
from bridge.text_tools.known_tools import KnownTool
from bridge.text_tools.words import (
    FUNCTION,
    FUNCTION_END,
    LONGEST_GAP,
    NO,
    PARAMETER_END,
    PARTIAL,
    TOOL_CALL,
    TOOL_CALL_END,
    follows,
)

LONGEST_NAME = 128

_GAP = rf"\s{{0,{LONGEST_GAP}}}+"
_HEADER = re.compile(rf"<function=([^<>\n]{{1,{LONGEST_NAME}}})>")
_FUNCTION = re.compile(rf"<function=|(</parameter>{_GAP})?</function>")
#: The longest text that this expression matches.
_LONGEST_TOKEN = len(PARAMETER_END) + LONGEST_GAP + len(FUNCTION_END)
_PARAMETER = re.compile(
    rf"<function=|</function>|(?:\A|\n|</parameter>){_GAP}<parameter=([^<>\n]{{1,{LONGEST_NAME}}})>"
)
_LAST_END = re.compile(r"</parameter>\s*\Z")
_AFTER_CALL = (TOOL_CALL_END, TOOL_CALL, FUNCTION)


class XmlBlock:
    """One call in XML, read in pieces."""

    closer = TOOL_CALL_END
    broken = False

    def __init__(self, head: str, *, tagged: bool) -> None:
        self.head = head
        self._tagged = tagged
        self._pieces: list[str] = []
        self._tail = ""  # the end of the text, which may be the start of a tag
        self._depth = 0  # of calls inside values

    @property
    def raw(self) -> str:
        return self.head + self._body

    @property
    def _body(self) -> str:
        return "".join(self._pieces) + self._tail

    def feed(self, text: str) -> str | None:
        """The text after the call, or None if the call goes on."""
        text = self._tail + text
        read = 0
        while tag := _FUNCTION.search(text, read):
            end = self._end_at(text, tag)
            if end == PARTIAL:
                self._keep(text, tag.start())
                return None
            if end != NO:
                self._pieces.append(text[:end])
                self._tail = ""
                return text[end:]
            read = tag.end()
        self._keep(text, max(read, len(text) - _LONGEST_TOKEN))
        return None

    def _keep(self, text: str, start: int) -> None:
        self._pieces.append(text[:start])
        self._tail = text[start:]

    def _end_at(self, text: str, tag: re.Match[str]) -> int:
        """The index after the call if this tag ends it, else NO or PARTIAL."""
        if tag[0] == FUNCTION:
            self._depth += 1
            return NO
        if self._depth > 1:
            self._depth -= 1
            return NO
        if tag[1] and not self._tagged:  # without a tag, any text may follow
            return tag.end()
        after = follows(text, tag.end(), _AFTER_CALL)
        return tag.end() if after >= 0 else after

    def calls(self, tools: Mapping[str, KnownTool]) -> list[FunctionCall]:
        call = xml_call(self._body, tools)
        return [] if call is None else [call]

    def repaired_calls(self, tools: Mapping[str, KnownTool]) -> list[FunctionCall]:
        """The call after the tags that are missing at its end are added. Its last value must be complete."""
        body = self._body.rstrip().removesuffix(TOOL_CALL_END).rstrip()
        if not body.endswith((FUNCTION_END, PARAMETER_END)):
            return []
        call = xml_call(body.removesuffix(FUNCTION_END) + FUNCTION_END, tools)
        return [] if call is None else [call]


def xml_call(text: str, tools: Mapping[str, KnownTool]) -> FunctionCall | None:
    """The call in the text, or None if the text is no call of these tools."""
    text = text.strip()
    header = _HEADER.match(text)
    tool = tools.get(header[1].strip()) if header else None
    if header is None or tool is None:
        return None
    body = text[header.end() :].removesuffix(FUNCTION_END)
    values: dict[str, str] = {}
    name, began = "", 0
    for parameter, start, end in _parameters(body, tool):
        if name:
            values[name] = body[began:start]
        elif body[:start].strip():
            return None
        name, began = parameter, end
    if name:
        values[name] = _LAST_END.sub("", body[began:])
    elif body.strip():
        return None
    typed = {key: tool.typed(key, _without_outer_lines(value)) for key, value in values.items()}
    return FunctionCall(tool.name, tool.own_arguments(typed))


def _parameters(body: str, tool: KnownTool) -> Iterator[tuple[str, int, int]]:
    """The name of each parameter, the start of its tag and the start of its value. Tags inside a value are
    left out: tags of nested calls, of unknown parameters and of parameters that already have a value."""
    seen: set[str] = set()
    depth = 0
    for tag in _PARAMETER.finditer(body):
        if tag[1] is None:
            depth = max(0, depth + (1 if tag[0] == FUNCTION else -1))
        elif depth == 0 and tag[1] not in seen and tool.accepts(tag[1]):
            seen.add(tag[1])
            yield tag[1], tag.start(), tag.end()


def _without_outer_lines(value: str) -> str:
    """The value without the line breaks beside its tags."""
    return value.removeprefix("\n").removesuffix("\n")
